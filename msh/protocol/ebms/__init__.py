"""OASIS ebMS 2.0: its words, and a message of it as values."""
