"""The review of denials: who looked, what they found, and the events of the log that say so."""
