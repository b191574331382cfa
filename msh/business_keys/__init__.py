"""Messages by values of their payloads: a feature that the core does not know."""
