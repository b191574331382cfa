"""Bytes to peer: the only HTTP and mail clients. One module per way to carry a message."""
