"""What was decided, and what came of it: plans, reports, and the reading of any document."""
