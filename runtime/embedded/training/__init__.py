"""How the embedded models were trained."""
