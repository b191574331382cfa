"""Who is in a siege: the honest pairs, and the hostile partner's agreements with both MSHs."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from demo.http11 import HOST
from demo.pairs import Pair, Timing

from .hostile import SCENARIOS
from .messages import Account
from .peer import CONSUMER, SILENT

PREFIX = "hostile-"
"""Of the hostile partner's names and MessageIds."""
WINDOWS = "windows"
ALL = (*SCENARIOS, WINDOWS)
ROUTED = ("names", "large")
"""Their messages are for a party behind the MSH, on the lane of an honest pair."""
UNREACHABLE = "signals"
LARGE_LANES = 60
LARGE_SIZE = 300_000
BEST_EFFORT = 1500


@dataclass(frozen=True, slots=True)
class Side:
    """One MSH as the hostile partner meets it. `onward`: the honest pair of which it is the sender,
    on whose lane it sends on what it routes."""

    machine: str
    other: str
    port: int
    hostile_port: int
    closed_port: int
    onward: Pair
    tokens: Mapping[str, str] = field(
        default_factory=lambda: {name: secrets.token_urlsafe(32) for name in SCENARIOS}
    )

    def account(self, scenario: str) -> Account:
        return Account(
            host=HOST,
            port=self.port,
            path=f"/ebxml/{PREFIX}{scenario}/",
            token=self.tokens[scenario],
            sender_uri=self._uri(scenario),
            receiver_uri=f"http://{self.machine}.demo.example/ebxml/{PREFIX}{scenario}/",
            tpa_id=_tpa(scenario),
            from_party="hostile",
            to_party=self.to_party(scenario),
        )

    def to_party(self, scenario: str) -> str:
        behind = scenario in ROUTED
        return f"{self.other}-behind-{self.machine}" if behind else f"{self.machine}-{scenario}"

    def partners(self, scenarios: Sequence[str]) -> list[dict[str, Any]]:
        """For the set-up of this MSH."""
        made = [self._partner(name) for name in scenarios if name in SCENARIOS]
        if WINDOWS in scenarios:
            lanes = [f"large-{number}" for number in range(LARGE_LANES)]
            made += [self._deaf(name) for name in (*lanes, "best-effort")]
        onward = [self._routed(name, ours="hostile") for name in ROUTED if name in scenarios]
        return made + ([{"name": self.onward.name, "agreements": onward}] if onward else [])

    def behind(self, scenarios: Sequence[str]) -> dict[str, Any]:
        """For the set-up of the other MSH, which has the party."""
        theirs = [self._routed(name, theirs="hostile") for name in ROUTED if name in scenarios]
        return {"name": self.onward.name, "agreements": theirs}

    def routes(self, scenarios: Sequence[str]) -> list[dict[str, str]]:
        if not any(name in ROUTED for name in scenarios):
            return []
        return [{"to_party": self.to_party(ROUTED[0]), "partner": self.onward.name, "mode": "hop"}]

    def _partner(self, scenario: str) -> dict[str, Any]:
        port = self.closed_port if scenario == UNREACHABLE else self.hostile_port
        account = self.account(scenario)
        return {
            "name": f"{PREFIX}{scenario}",
            "our_uri": account.receiver_uri,
            "uri": account.sender_uri,
            "address": f"http://{HOST}:{port}/{self.machine}/{scenario}/",
            "token_in": account.token,
            "token_out": secrets.token_urlsafe(32),
            "agreements": [_agreement(account.tpa_id, account.to_party, "hostile")],
        }

    def _deaf(self, name: str) -> dict[str, Any]:
        """It takes what it is sent in silence."""
        return {
            "name": f"{PREFIX}{name}",
            "our_uri": f"http://{self.machine}.demo.example/ebxml/{PREFIX}{name}/",
            "uri": self._uri(name),
            "address": f"http://{HOST}:{self.hostile_port}{SILENT}{self.machine}/{name}/",
            "agreements": [_agreement(_tpa(name), f"{self.machine}-{name}", "hostile")],
        }

    def _routed(self, scenario: str, ours: str = "", theirs: str = "") -> dict[str, Any]:
        behind = self.to_party(scenario)
        return _agreement(_tpa(scenario), ours or behind, theirs or behind)

    def _uri(self, name: str) -> str:
        return f"http://hostile.demo.example/{self.machine}/{name}/"


def consumer_words(side: Side) -> tuple[str, ...]:
    """The command that gives one scenario's messages to a consumer over HTTP."""
    url = f"http://{HOST}:{side.hostile_port}{CONSUMER}"
    return ("consumer", "latin1", "--url", url, "--partner", f"{PREFIX}latin1")


def documents(sides: Sequence[Side], scenarios: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What is set up beside the honest pairs, by MSH."""
    made: dict[str, dict[str, Any]] = {}
    for side in sides:
        behind = [each.behind(scenarios) for each in sides if each.other == side.machine]
        made[side.machine] = {
            "partners": [*side.partners(scenarios), *(one for one in behind if one["agreements"])],
            "routes": side.routes(scenarios),
        }
    return made


def _tpa(name: str) -> str:
    return f"tpa-{PREFIX}{name}"


def _agreement(tpa_id: str, ours: str, theirs: str) -> dict[str, Any]:
    return {"tpa_id": tpa_id, "our_party": ours, "their_party": theirs, **asdict(Timing())}
