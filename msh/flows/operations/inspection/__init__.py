"""Explanations for operators: the history of a message, why it is not sent, and what to do."""
