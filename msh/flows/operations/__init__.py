"""What operators and the clock do to what is stored, and what they are shown of it."""
