"""The rules of the specification, as pure values and functions: they read no clock, no row and no
socket."""
