"""Plans, and the reports of what came of them; and the reading of any document."""
