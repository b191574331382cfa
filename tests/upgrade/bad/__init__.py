"""A migration that is refused."""
