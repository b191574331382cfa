"""One MSH on many machines, and a verdict: `make scale-out`."""
