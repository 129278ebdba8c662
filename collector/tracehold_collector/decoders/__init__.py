"""From the bytes of a request to rows for the writer: in this process, or in one of its own."""
