"""The verifiers that go with every bundle. They share no code with the server, on purpose: do not import from here."""
