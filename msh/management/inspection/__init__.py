"""Commands that only look: at links, messages and deliveries, and at what a partner says of them. A
Django app without models."""
