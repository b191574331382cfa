"""Addresses from which nothing comes back: packets are dropped, as behind a firewall."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def dropping() -> Iterator[str]:
    """The address of a listener whose backlog is full: who connects waits and is never told."""
    with ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(8):
            filling = held.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}/ebxml/"
