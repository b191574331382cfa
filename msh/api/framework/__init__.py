"""What all addresses of the REST API use: who asks, what is read, how problems are told."""
