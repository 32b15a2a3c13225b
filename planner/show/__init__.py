"""Documents as a person sees them: in a terminal, as pictures, in words."""
