"""The demo: two MSHs, a bad link between them, and a judge who believes neither."""
