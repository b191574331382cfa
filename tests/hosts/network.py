"""Hosts that can vanish without a word.

A host is a network namespace, and a cable (a veth pair) connects it with us. When the cable is cut,
what either side sends is dropped: nothing comes back, not even a reset.
"""

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

_NUMBERS = itertools.count()
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
_NOBODY = "02:00:00:00:00:03"

NO_NAMESPACES = (
    "tests/hosts needs network namespaces: root (or CAP_NET_ADMIN and CAP_SYS_ADMIN), and"
    " apt-get install iproute2. In a container: --privileged."
)
OURS = ""
"""Our own namespace."""


class HostsMissing(Exception):
    """`str()` names the cure on one line."""


class Cable:
    """Between two namespaces. `addresses` are those of its two ends."""

    def __init__(self, one: str, other: str) -> None:
        number = next(_NUMBERS)
        own = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.addresses = f"{own}.{4 * number + 1}", f"{own}.{4 * number + 2}"
        self._namespaces = one, other
        self._ends = f"m{os.getpid()}x{number}a", f"m{os.getpid()}x{number}b"
        self._make()

    def cut(self) -> None:
        """Frames are addressed to nobody: the ends stay up, whoever sends gets no error."""
        self._connect(_NOBODY, _NOBODY)

    def restore(self) -> None:
        """Connections that neither side has given up go on."""
        self._connect(*_MAC)

    def remove(self) -> None:
        _ip("link", "del", self._ends[0], inside=self._namespaces[0])

    def _make(self) -> None:
        (one, other), (mac, other_mac) = self._ends, _MAC
        peer = ("type", "veth", "peer", "name", other, "address", other_mac)
        _ip("link", "add", one, "address", mac, *peer)
        for end, namespace, address in zip(
            self._ends, self._namespaces, self.addresses, strict=True
        ):
            if namespace != OURS:
                _ip("link", "set", end, "netns", namespace)
            _ip("addr", "add", f"{address}/30", "dev", end, inside=namespace)
            _ip("link", "set", end, "up", inside=namespace)
        self.restore()

    def _connect(self, mac: str, other_mac: str) -> None:
        """Neighbours do not have to be asked for: one that does not answer would be an error."""
        (one, other), (address, other_address) = self._ends, self.addresses
        for end, namespace, peer, its_mac in (
            (one, self._namespaces[0], other_address, other_mac),
            (other, self._namespaces[1], address, mac),
        ):
            neighbour = (peer, "lladdr", its_mac, "nud", "permanent", "dev", end)
            _ip("neigh", "replace", *neighbour, inside=namespace)


class Host:
    """Use it as a context. `address` is where its programs can be reached from here."""

    def __init__(self) -> None:
        self._name = f"msh-{os.getpid()}-{next(_NUMBERS)}"
        self._cables: list[Cable] = []

    def __enter__(self) -> Self:
        if not shutil.which("ip"):
            raise HostsMissing(NO_NAMESPACES)
        try:
            _ip("netns", "add", self._name)
            _ip("link", "set", "lo", "up", inside=self._name)
            self.connect()
        except subprocess.CalledProcessError as failed:
            self.__exit__()
            said = failed.stderr.decode().strip()
            raise HostsMissing(f"{NO_NAMESPACES} ({said})") from None
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.CalledProcessError):
            for cable in self._cables:
                cable.remove()
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self._name)

    @property
    def address(self) -> str:
        return self._cables[0].addresses[1]

    def connect(self, other: "Host | None" = None) -> Cable:
        """A further cable, from another host or from us to this one."""
        cable = Cable(other._name if other else OURS, self._name)
        self._cables.append(cable)
        return cable

    def vanish(self) -> None:
        for cable in self._cables:
            cable.cut()

    def come_back(self) -> None:
        for cable in self._cables:
            cable.restore()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What this thread starts and opens meanwhile is on this host, and stays there."""
        with (
            Path("/proc/thread-self/ns/net").open() as home,
            Path(f"/run/netns/{self._name}").open() as there,
        ):
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise HostsMissing(f"{NO_NAMESPACES} ({os.strerror(ctypes.get_errno())})")


def _ip(*words: str, inside: str = OURS) -> str:
    """What it printed."""
    where = ("-n", inside) if inside else ()
    done = subprocess.run(["ip", *where, *words], check=True, capture_output=True)
    return done.stdout.decode()
