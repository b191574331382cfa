"""What the specification says: pure values and functions. No clock, no row, no socket."""
