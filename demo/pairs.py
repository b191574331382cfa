"""Who talks to whom in the demo: two MSHs, N pairs of partners between them, routers on the way.

The pairs' directions alternate, so that both MSHs send and receive.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from .sighting import lane_name
from .tls import Trust

ENDS = ("a", "b")
ROUTERS = "cdefgh"
PAIRS_PER_SECOND = 16
"""Exchanges that two cores do in a second while they do everything else."""

WINDOW = 4
"""Messages of an ebMS 2.0 pair that may be under way at once: few enough to be reached."""

CONVERSATIONS = 3
"""Of a pair whose messages are in the order of their conversation: each has many messages, and all
of them together do not fill the window by their first ones."""

Tokens = Mapping[tuple[str, str], str]
"""What each MSH shows its neighbours, by pair and MSH."""


class Transport(StrEnum):
    HTTP = "http"
    SMTP = "smtp"


def chain_of(routers: int) -> tuple[str, ...]:
    """The names of the MSHs, each a neighbour of the next."""
    first, last = ENDS
    return (first, *ROUTERS[:routers], last)


class Dialect(StrEnum):
    TRP = "trp"
    EBMS2 = "ebms2"


@dataclass(frozen=True, slots=True)
class Timing:
    """An agreement's seconds and its count of retries: short, so that a lost copy costs the viewer
    no patience."""

    timeout: int = 2
    retries: int = 5
    retry_interval: int = 1


def timing_for(pairs: int) -> Timing:
    """Seconds that so many pairs at once need: a copy that is sent again because the computer is
    busy, and not because one was lost, makes it busier."""
    return Timing(timeout=2 + pairs // PAIRS_PER_SECOND)


@dataclass(frozen=True, slots=True)
class Pair:
    """One producer's way: the names of MSHs, from the sender by the routers to the receiver."""

    name: str
    path: tuple[str, ...]
    transport: Transport = Transport.HTTP
    timing: Timing = Timing()
    dialect: Dialect = Dialect.TRP
    conversations: int = 0
    """In the order of which messages are exchanged; 0: of the pair, or without order."""

    @property
    def sender(self) -> str:
        return self.path[0]

    @property
    def receiver(self) -> str:
        return self.path[-1]

    @property
    def tpa_id(self) -> str:
        return f"tpa-{self.name}"

    @property
    def lanes(self) -> dict[str, str]:
        """The names of each hop in the proxy and in the checker."""
        seen = self.party if self.dialect is Dialect.EBMS2 else self.uri
        return {
            lane_name(seen(here), seen(there)): f"{self.name} {here}>{there}"
            for here, there in pairwise(self.path)
        }

    @property
    def terms(self) -> dict[str, object]:
        """What an agreement says in its dialect, beyond who its parties are."""
        if self.dialect is Dialect.TRP:
            return asdict(self.timing)
        return {
            "dialect": self.dialect.value,
            "service_type": "demo",
            "retries": self.timing.retries,
            "retry_interval": self.timing.timeout,
            "window": WINDOW,
            "ordered": bool(self.conversations),
            "on_failure": "hold",  # the demo's operator resumes what is held
        }

    def uri(self, machine: str) -> str:
        """By which the others know an MSH. No name server need know it: the partners'
        addresses, or the mail host, lead through the proxy."""
        if self.transport is Transport.SMTP:
            return f"mailto:{self.name}@{machine}.demo.example"
        return f"http://{machine}.demo.example/ebxml/{self.name}/"

    def party(self, machine: str) -> str:
        return f"{machine}-{self.name}"

    @property
    def path_of_address(self) -> str:
        """Of the URL at which each end is reached."""
        return f"/ebxml/{self.name}/"

    def neighbours(self, machine: str) -> tuple[str, ...]:
        at = self.path.index(machine)
        return self.path[max(at - 1, 0) : at] + self.path[at + 1 : at + 2]

    def partner_name(self, machine: str, neighbour: str) -> str:
        """What `machine` calls its neighbour on this pair's way."""
        return self.name if machine in ENDS else f"{self.name}-{neighbour}"

    def ends_seen(self, machine: str, neighbour: str) -> tuple[str, str]:
        """The ends on our side and on the neighbour's."""
        onward = self.path.index(neighbour) > self.path.index(machine)
        return (self.sender, self.receiver) if onward else (self.receiver, self.sender)


def make_pairs(
    count: int,
    routers: int = 0,
    transport: Transport = Transport.HTTP,
    timing: Timing = Timing(),
    dialect: Dialect = Dialect.TRP,
) -> list[Pair]:
    chain = chain_of(routers)
    ways = (chain, chain[::-1])
    return [
        Pair(f"pair-{number + 1}", ways[number % 2], transport, timing, dialect)
        for number in range(count)
    ]


def make_tokens(pairs: Sequence[Pair]) -> Tokens:
    return {
        (pair.name, machine): secrets.token_urlsafe(32) for pair in pairs for machine in pair.path
    }


def setup_of(
    machine: str,
    pairs: Sequence[Pair],
    proxy_ports: Mapping[str, int],
    tokens: Tokens,
    mode: str = "hop",
    trust: Trust | None = None,
    terms_with: Callable[[str], Mapping[str, object]] = lambda neighbour: {},
) -> dict[str, Any]:
    """The `manage.py setup` document of one MSH, which reaches each neighbour at a proxy port.

    A router acknowledges as `mode` says. Pairs whose partners have one name share a partner. With
    `trust` over TLS: a certificate is that of one partner, so the partner of the first pair is
    known by it, the others by their tokens. `terms_with` gives more terms of agreements with a
    neighbour.
    """
    own = pairs[0].uri(machine).replace(pairs[0].name, "msh")
    partners: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        for neighbour in pair.neighbours(machine):
            made = _partner(machine, neighbour, pair, proxy_ports, tokens)
            if trust is not None:
                _secure(made, neighbour, trust, certified=pair is pairs[0])
            made["agreements"][0].update(terms_with(neighbour))
            known = partners.setdefault(made["name"], made)
            if known is not made:
                known["agreements"] += made["agreements"]
    return {
        "msh_uri": own,
        "error_uri": own,
        "partners": list(partners.values()),
        "routes": [_route(machine, pair, mode) for pair in pairs if machine not in ENDS],
    }


def _partner(
    machine: str, neighbour: str, pair: Pair, proxy_ports: Mapping[str, int], tokens: Tokens
) -> dict[str, Any]:
    our_end, their_end = pair.ends_seen(machine, neighbour)
    return {
        "name": pair.partner_name(machine, neighbour),
        "our_uri": pair.uri(machine),
        "uri": pair.uri(neighbour),
        **_reached(machine, neighbour, pair, proxy_ports, tokens),
        "agreements": [
            {
                "tpa_id": pair.tpa_id,
                "our_party": pair.party(our_end),
                "their_party": pair.party(their_end),
                **pair.terms,
            }
        ],
    }


def _reached(
    machine: str, neighbour: str, pair: Pair, proxy_ports: Mapping[str, int], tokens: Tokens
) -> dict[str, str]:
    """Where the neighbour is, and what each shows the other."""
    ours, theirs = tokens[pair.name, machine], tokens[pair.name, neighbour]
    if pair.transport is Transport.SMTP:  # the mail host is a setting of the MSH
        return {
            "basic_in": f"{neighbour}-{pair.name}:{theirs}",
            "basic_out": f"{machine}-{pair.name}:{ours}",
        }
    return {
        "address": f"http://127.0.0.1:{proxy_ports[neighbour]}{pair.path_of_address}",
        "token_in": theirs,
        "token_out": ours,
    }


def _secure(partner: dict[str, Any], neighbour: str, trust: Trust, *, certified: bool) -> None:
    partner["address"] = partner["address"].replace("http:", "https:")
    if certified:
        del partner["token_in"], partner["token_out"]
        partner["certificate_in"] = trust.certificate_of(neighbour)
        partner["ca_certificates"] = trust.authority


def _route(machine: str, pair: Pair, mode: str) -> dict[str, str]:
    onward = pair.path[pair.path.index(machine) + 1]
    return {
        "to_party": pair.party(pair.receiver),
        "partner": pair.partner_name(machine, onward),
        "mode": mode,
    }
