"""Evidence: the answer to one question as a zip file that proves itself away from the server that made it."""
