"""What happened with each partner, counted once: a feature that the core does not know."""
