"""Who may: API keys with roles, what a shown key opens, and the record of who asked for what."""
