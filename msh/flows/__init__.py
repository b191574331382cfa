"""The paths through the MSH, one verb a file. `advance` is the only writer of state."""
