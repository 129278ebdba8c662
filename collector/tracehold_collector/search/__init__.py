"""Search in what events said: reads contents a little at a time, and keeps no index of them."""
