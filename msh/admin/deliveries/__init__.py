"""Deliveries to consumers, and the decisions on them."""
