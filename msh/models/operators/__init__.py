"""What belongs to the people of the console: what they ask of each other, and how they see it."""
