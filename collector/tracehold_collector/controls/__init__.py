"""Which control of Tracehold serves which rule, with the dates of the rules kept as data."""
