"""Times of passes, and of what lies between them, on this machine."""
