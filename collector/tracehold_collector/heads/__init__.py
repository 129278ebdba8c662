"""Tree heads: signed as the logs grow, kept in the store, and copied to where whoever has the store cannot reach."""
