"""Checks an audit log against its events and its tree heads. It believes nobody but the keys it is given."""
