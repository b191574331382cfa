"""Hosts of PostgreSQL and Redis that can vanish without a word.

A host is a network namespace with an address of its own. Its programs are sockets that listen there
and pass everything on to the servers of the tests. When it vanishes, it has no address any more:
what is sent to it is dropped, nothing comes back, not even a reset.
"""

import ctypes
import itertools
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

_NUMBERS = itertools.count()
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

NO_NAMESPACES = (
    "tests/hosts needs network namespaces: root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), and"
    " apt-get install iproute2. In a container: --privileged."
)


class NamespacesMissing(Exception):
    """`str()` names the cure on one line."""


class Host:
    """Use it as a context. `address` is where its programs listen."""

    def __init__(self) -> None:
        self._number = next(_NUMBERS)
        own = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._gateway = f"{own}.{4 * self._number + 1}"
        self.address = f"{own}.{4 * self._number + 2}"
        self._relays: list[_Relay] = []
        self._made = 0

    def __enter__(self) -> Self:
        if not shutil.which("ip"):
            raise NamespacesMissing(NO_NAMESPACES)
        try:
            self._make()
        except subprocess.CalledProcessError as failed:
            self.__exit__()
            said = failed.stderr.decode().strip()
            raise NamespacesMissing(f"{NO_NAMESPACES} ({said})") from None
        return self

    def __exit__(self, *_: object) -> None:
        for relay in self._relays:
            relay.close()
        with suppress(subprocess.CalledProcessError):
            self._remove()

    def listen(self, port: int, onward: int) -> None:
        """Whatever comes to this port is passed on to port `onward` of 127.0.0.1, and back."""
        self._relays.append(_Relay(self._listener(port), port, onward))

    def vanish(self) -> None:
        """Drop all that comes, say nothing. The servers see their clients go."""
        _ip("-n", self._name, "addr", "del", f"{self.address}/30", "dev", "inside")
        for relay in self._relays:
            relay.vanish()

    def take_over(self) -> None:
        """Another host has the address now, and the same programs. It knows no connection of the
        one that has vanished: who sends on one of those gets a reset."""
        before, self._relays = self._relays, []
        self._remove()
        self._make()
        for relay in before:
            self.listen(relay.port, relay.onward)

    @property
    def _name(self) -> str:
        return f"msh-{os.getpid()}-{self._number}-{self._made}"

    @property
    def _link(self) -> str:
        return f"m{os.getpid()}x{self._number}"

    def _remove(self) -> None:
        _ip("link", "del", self._link)
        _ip("netns", "del", self._name)

    def _make(self) -> None:
        self._made += 1
        _ip("netns", "add", self._name)
        _ip(
            "link", "add", self._link, "type", "veth", "peer", "name", "inside", "netns", self._name
        )
        _ip("addr", "add", f"{self._gateway}/30", "dev", self._link)
        _ip("link", "set", self._link, "up")
        _ip("-n", self._name, "addr", "add", f"{self.address}/30", "dev", "inside")
        _ip("-n", self._name, "link", "set", "inside", "up")
        # A host that does not answer even on its own network would be known to be unreachable.
        hardware = _ip("-n", self._name, "-br", "link", "show", "inside").split()[2]
        neighbour = (self.address, "lladdr", hardware, "nud", "permanent", "dev", self._link)
        _ip("neigh", "replace", *neighbour)

    def _listener(self, port: int) -> socket.socket:
        """A socket stays in the namespace that its thread was in when it was made."""
        made: list[socket.socket] = []

        def make() -> None:
            with Path(f"/run/netns/{self._name}").open() as namespace:
                if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
                    return
            made.append(socket.create_server((self.address, port)))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if not made:
            raise NamespacesMissing(NO_NAMESPACES)
        return made[0]


class _Relay:
    """Two threads for each connection: one for each direction."""

    def __init__(self, listener: socket.socket, port: int, onward: int) -> None:
        self._listener = listener
        self.port = port
        self.onward = onward
        self._clients: list[socket.socket] = []
        self._servers: list[socket.socket] = []
        self._vanished = False
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def vanish(self) -> None:
        self._vanished = True
        _end(*self._servers)

    def close(self) -> None:
        everything = (self._listener, *self._servers, *self._clients)
        _end(*everything)
        for thread in self._threads:
            thread.join()
        for one in everything:
            one.close()

    def _start(self, run: Callable[..., None], *arguments: socket.socket) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self.onward))
                self._clients.append(client)
                self._servers.append(server)
                self._start(self._carry, client, server)
                self._start(self._carry, server, client)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        if not self._vanished:
            _end(source, target)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _ip(*words: str) -> str:
    finished = subprocess.run(["ip", *words], check=True, capture_output=True)
    return finished.stdout.decode()
