"""The ground everything else stands on: ids, clock, errors, run context. Imports nothing of ours."""
