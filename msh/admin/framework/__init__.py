"""The parts that all pages of the console share."""
