"""Four eyes: acts that a second person confirms. The decisions are in `msh.protocol.four_eyes`."""
