"""Two pure cores over a link that may drop, repeat, delay and reorder everything."""
