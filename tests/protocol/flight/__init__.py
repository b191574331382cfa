"""The pure machine for one reliable ebMS message, and what stands beside it."""
