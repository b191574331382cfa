"""Who talks to whom in the demo: two MSHs, and N pairs of partners between them.

Their directions alternate, so that both MSHs send and receive.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .sighting import lane_name

TIMING = {"timeout": 2, "retries": 5, "retry_interval": 1}
"""Seconds and a count: short, so that a lost copy costs the viewer no patience."""


def identity(machine: str) -> str:
    """The URI by which the others know an MSH. No name server need know it: the partners'
    addresses lead through the proxy."""
    return f"http://{machine}.demo.example/ebxml/"


@dataclass(frozen=True, slots=True)
class Pair:
    """One producer's lane: `sender` and `receiver` are the names of MSHs."""

    name: str
    sender: str
    receiver: str

    @property
    def tpa_id(self) -> str:
        return f"tpa-{self.name}"

    @property
    def lane(self) -> str:
        """What the proxy calls it."""
        return lane_name(self.uri(self.sender), self.uri(self.receiver))

    def uri(self, machine: str) -> str:
        return f"{identity(machine)}{self.name}/"

    def party(self, machine: str) -> str:
        return f"{machine}-{self.name}"

    def other(self, machine: str) -> str:
        return self.receiver if machine == self.sender else self.sender


def make_pairs(count: int) -> list[Pair]:
    ends = (("a", "b"), ("b", "a"))
    return [Pair(f"pair-{number + 1}", *ends[number % 2]) for number in range(count)]


def make_tokens(pairs: list[Pair]) -> dict[tuple[str, str], str]:
    """What each MSH shows the other, by pair and MSH."""
    return {
        (pair.name, machine): secrets.token_urlsafe(32)
        for pair in pairs
        for machine in (pair.sender, pair.receiver)
    }


def setup_of(
    machine: str, pairs: list[Pair], proxy_port: int, tokens: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """The `manage.py setup` document of one MSH, which reaches the other at `proxy_port`."""
    return {
        "msh_uri": identity(machine),
        "error_uri": identity(machine),
        "partners": [_partner(machine, pair, proxy_port, tokens) for pair in pairs],
    }


def _partner(
    machine: str, pair: Pair, proxy_port: int, tokens: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    other = pair.other(machine)
    return {
        "name": pair.name,
        "our_uri": pair.uri(machine),
        "uri": pair.uri(other),
        "address": f"http://127.0.0.1:{proxy_port}/ebxml/{pair.name}/",
        "token_in": tokens[pair.name, other],
        "token_out": tokens[pair.name, machine],
        "agreements": [
            {
                "tpa_id": pair.tpa_id,
                "our_party": pair.party(machine),
                "their_party": pair.party(other),
                **TIMING,
            }
        ],
    }
