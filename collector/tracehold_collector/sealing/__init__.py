"""Keys of runs, and the sealing of what agents said under them."""
