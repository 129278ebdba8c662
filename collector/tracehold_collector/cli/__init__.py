"""The `tracehold` command: a module a group of verbs."""
