"""The two directions of a partner: their state, their counters, what operators do to them."""
