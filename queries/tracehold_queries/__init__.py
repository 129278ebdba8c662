"""Named questions to a Tracehold store, one `.sql` file each, and the loader that runs them."""
