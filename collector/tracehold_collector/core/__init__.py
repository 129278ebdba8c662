"""What the rest of the collector is made of: the record, its words, its limits, its errors."""
