"""Calls to operators about incidents: a feature that the core does not know."""
