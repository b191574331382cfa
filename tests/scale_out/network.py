"""A network of hosts behind one router, as machines of a data centre: each host is a network
namespace, and so is the router."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.hosts.network import Cable, Host, _ip


class Router(Host):
    """Use it as a context, around its hosts. `us` is our address for all of them."""

    def __enter__(self) -> Self:
        super().__enter__()
        with self.inside():
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        network = self.address.rpartition(".")[0]
        _ip("route", "add", f"{network}.0/24", "via", self.address)
        return self

    def __exit__(self, *_: object) -> None:
        network = self.address.rpartition(".")[0]
        with suppress(subprocess.CalledProcessError):
            _ip("route", "del", f"{network}.0/24")
        super().__exit__()

    @property
    def us(self) -> str:
        return self._cables[0].addresses[0]


class Node(Host):
    """One host of the network."""

    def __init__(self, router: Router) -> None:
        super().__init__()
        self._router = router

    @property
    def processes(self) -> list[int]:
        """Ids of those that run here."""
        return [int(word) for word in _ip("netns", "pids", self._name).split()]

    def connect(self, other: Host | None = None) -> Cable:
        cable = Cable(self._router._name, self._name)
        self._cables.append(cable)
        _ip("route", "add", "default", "via", cable.addresses[0], inside=self._name)
        return cable
