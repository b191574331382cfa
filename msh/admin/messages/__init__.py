"""Messages, their content and their history, and signals."""
