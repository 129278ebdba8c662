"""What the rest of the collector is made of: the record, its words, its limits, its errors. Imports nothing of ours
but the runtime's privacy and naming modules."""
