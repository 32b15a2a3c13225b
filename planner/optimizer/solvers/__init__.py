"""What is worth trying: one class a solver."""
