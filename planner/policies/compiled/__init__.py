"""The compiled parts of policies."""
