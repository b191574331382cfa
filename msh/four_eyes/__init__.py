"""Acts that a second person confirms: a feature that the core does not know. What needs one is
decided in `msh.protocol.four_eyes`."""
