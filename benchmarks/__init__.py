"""How fast we are, as ratios to what the same machine can do at best in the same run."""
