"""Rows of the console's users: requests to each other, and preferences."""
