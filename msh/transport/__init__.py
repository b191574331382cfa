"""Bytes to peer: the only HTTP and mail clients. One module per way to transmit a message."""
