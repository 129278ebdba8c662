"""Erases what was recorded about somebody, and can show it: legal holds, retention, and what is out of reach."""
