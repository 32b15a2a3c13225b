"""What policies decide with, compiled."""
