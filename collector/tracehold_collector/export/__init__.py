"""Events in files: chosen by time, run, tenant and more, streamed from the store in the order they came in."""
