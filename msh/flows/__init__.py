"""The paths through the MSH: what happens in which order. `msh.store` reads and writes rows."""
