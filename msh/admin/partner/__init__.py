"""The page of a partner: both directions, and everything else about it in one place."""
