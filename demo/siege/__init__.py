"""`make siege`: two MSHs that route, honest partners over a bad link, and one hostile partner."""
