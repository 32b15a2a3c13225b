"""How children are drawn and judged, and how often they are accepted."""
