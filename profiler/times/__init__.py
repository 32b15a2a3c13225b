"""What passes, and what lies between them, take here."""
