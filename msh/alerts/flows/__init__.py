"""Calls to operators: what they say, in which form each channel takes it, and how it goes out."""
