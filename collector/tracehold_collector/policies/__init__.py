"""Which policy was in force for which agent: recording it under a login, and reading what changed."""
