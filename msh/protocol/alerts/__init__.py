"""Who is called about what, when, and when not: pure decisions."""
