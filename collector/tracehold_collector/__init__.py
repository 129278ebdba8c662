"""The collector: takes in what agents send, stores it once, answers questions about it."""
