"""What tests of several components share."""
