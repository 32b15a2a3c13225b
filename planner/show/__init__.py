"""What a person sees of documents: in a terminal, as pictures, in words."""
