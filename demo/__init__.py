"""The demo: two MSHs, a bad link between them, and an independent checker."""
