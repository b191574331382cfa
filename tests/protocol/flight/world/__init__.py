"""Two MSHs of the pure cores of ebMS, over a link that may drop, repeat, delay and reorder."""
