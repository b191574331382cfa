"""Which figures are measured on which stage. One stage stands at a time."""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from demo.keys import Keys

from .as2 import ToAs2
from .bulk import Bulk
from .cancel import CancelQueue, DrainBesideCancel
from .choose import Choose
from .crowd import Crowd
from .drain import Drain, RetryStorm
from .exchange import CommitBound, Exchange, ToChain
from .figure import Against, Figure, Gauge
from .msh import Msh
from .processes import Idle, Memory
from .receive import Receive
from .signatures import CORES, THREADS, SignatureCost, Verifications
from .stage import EXCHANGING_PAIRS, Stage
from .stored import add_quiet_partners, fill
from .stuck import stuck_partners
from .submit import Submit
from .tls import TlsProxy

SMALL = 10_000
"""Messages stored where nothing has grown yet."""
SHORT_QUEUE = 40
"""Messages for each partner where the queue is short."""
MEGABYTE = 1_000_000
CANCELLED, CANCELLED_QUEUE = 28, 20_000
"""Partners, and messages for each: two jobs a round and a warm-up, and one queue for the floor."""
STUCK = 100
"""Partners, half of them suspended and half silent."""


@dataclass(frozen=True)
class Sizes:
    """How much of it: see `--help`."""

    stored: tuple[int, ...]
    stored_bytes: int
    quiet_partners: int
    partners: int
    queued: int
    minutes: float
    idle_seconds: float


@dataclass
class Scene:
    """What is measured now, and an MSH that knows the server's settings."""

    msh: Msh
    figures: list[Figure] = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)


@dataclass(frozen=True)
class Act:
    """Plays scenes in a folder. Of their figures the chosen ones are measured."""

    names: tuple[str, ...]
    play: Callable[[Path, Sizes, Collection[str]], Generator[Scene]]


def _exchange_16(stage: Stage, minimum: float = 0) -> Exchange:
    return Exchange(stage, EXCHANGING_PAIRS, messages=60, prototype_messages=150, minimum=minimum)


def _usual(folder: Path, sizes: Sizes, chosen: Collection[str]) -> Generator[Scene]:
    loads = bool({"bulk_1", "bulk_2", "submit_1"} & set(chosen))
    with Stage(folder, loaded=loads) as stage:
        one = Exchange(stage, pairs=1, messages=600, prototype_messages=1000)
        many = _exchange_16(stage, minimum=0.20)
        loaded, quiet = (stage.loaded, stage.api_token), partial(stage.only, stage.loaded)
        yield Scene(
            stage.sender,
            [
                Receive(stage, connections=1, seconds=3),
                Receive(stage, connections=16, seconds=3, minimum=0.10),
                one,
                ToChain(one, stage, pairs=1, messages=800),
                many,
                ToChain(many, stage, pairs=EXCHANGING_PAIRS, messages=100),
                CommitBound(many, stage, clients=EXCHANGING_PAIRS, seconds=3),
                ToAs2(many, stage, clients=8, messages=25),
                Bulk(*loaded, clients=1, requests=4, quiet=quiet),
                Bulk(*loaded, clients=2, requests=4, minimum=0.20, quiet=quiet),
                Submit(stage, seconds=3),
            ],
            [Idle(stage, sizes.idle_seconds)],
        )


def _ebms2(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    """What ebMS 2.0 takes, against the draft: one pair of which 16 messages are under way at once,
    and the receipt of the same payload."""
    with Stage(folder / "ebms2", dialect="ebms2") as here, Stage(folder / "trp") as elsewhere:
        quiet = (here.only, elsewhere.only)
        exchange = Exchange(here, pairs=1, messages=600, prototype_messages=0)
        by_turns = Exchange(elsewhere, pairs=1, messages=600, prototype_messages=0)
        receive = [Receive(one, connections=16, seconds=3) for one in (here, elsewhere)]
        yield Scene(
            here.sender,
            [
                Against("ebms2_exchange_1", exchange, by_turns, quiet=quiet, minimum=1.1),
                Against("ebms2_receive_16", *receive, quiet=quiet, minimum=0.85),
            ],
        )


def _signed(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    """Signed messages with signed Acknowledgments, against the same without."""
    keys = Keys(signed=True)
    with (
        Stage(folder / "signed", dialect="ebms2", keys=keys) as here,
        Stage(folder / "plain", dialect="ebms2") as elsewhere,
    ):
        quiet = (here.only, elsewhere.only)
        both = [
            Exchange(one, EXCHANGING_PAIRS, messages=30, prototype_messages=0)
            for one in (here, elsewhere)
        ]
        yield Scene(
            here.sender,
            [
                Against("signed_exchange_16", *both, quiet=quiet),
                Verifications("verify_8_threads", 1, floor_threads=1, quiet=quiet),
                Verifications("verify_processes", CORES, floor_threads=THREADS, quiet=quiet),
            ],
            [SignatureCost("sign", quiet), SignatureCost("verify", quiet)],
        )


def _200_pairs(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with Stage(folder, pairs=200) as stage:
        yield Scene(stage.sender, [Exchange(stage, pairs=200, messages=6, prototype_messages=12)])


def _payloads(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with Stage(folder) as stage:
        large = Exchange(stage, EXCHANGING_PAIRS, messages=4, prototype_messages=10, size=MEGABYTE)
        large.name = "exchange_16_1mb"
        yield Scene(stage.sender, [large])


def _tls(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    """Over TLS, against the same without."""
    with Stage(folder) as stage, TlsProxy(folder / "tls", stage.receiver.port) as proxy:
        plain = Receive(stage, connections=16, seconds=3)
        over_tls = Receive(stage, connections=16, seconds=3, proxy=proxy)
        yield Scene(stage.receiver, [Against("receive_16_tls", over_tls, plain)])


def _memory(folder: Path, sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with Stage(folder) as stage:
        yield Scene(stage.sender, [], [Memory(stage, sizes.minutes)])


def _quiet_partners(folder: Path, sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with Stage(folder / "many") as many, Stage(folder / "few") as few:
        for msh in (many.sender, many.receiver):
            add_quiet_partners(msh, sizes.quiet_partners)
        against = Against(
            "quiet_partners",
            _exchange_16(many),
            _exchange_16(few),
            quiet=(many.only, few.only),
            facts={"quiet_partners": sizes.quiet_partners},
        )
        yield Scene(many.sender, [against])


def _stuck_partners(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with (
        Stage(folder / "beside") as beside,
        Stage(folder / "without") as without,
        stuck_partners(beside.sender, STUCK),
    ):
        against = Against(
            "stuck_partners",
            _exchange_16(beside),
            _exchange_16(without),
            quiet=(beside.only, without.only),
            facts={"stuck_partners": STUCK},
        )
        yield Scene(beside.sender, [against])


def _growth(folder: Path, sizes: Sizes, chosen: Collection[str]) -> Generator[Scene]:
    """The same at each size against a stage that keeps SMALL, growing from one to the next."""
    with Stage(folder / "large") as large, Stage(folder / "small") as small:
        for stage in (large, small):
            with (small if stage is large else large).only():
                _exchange_16(stage).product()
                with stage.only(stage.receiver):
                    Receive(stage, connections=16, seconds=1).product()
        stored = 0
        for size in sizes.stored:
            for stage, messages in ((large, size - stored), (small, 0 if stored else SMALL)):
                if messages:
                    fill(stage.receiver, "in", messages, sizes.stored_bytes)
                    if "growth_exchange" in chosen:
                        fill(stage.sender, "out", messages, sizes.stored_bytes)
            stored = size
            suffix = "" if size == sizes.stored[-1] else f"_{size}"
            pairs: list[tuple[str, Figure, Figure]] = [
                ("growth_receive", Receive(large, 16, seconds=3), Receive(small, 16, seconds=3)),
                ("growth_exchange", _exchange_16(large), _exchange_16(small)),
            ]
            figures: list[Figure] = [
                Against(
                    name + suffix,
                    here,
                    elsewhere,
                    quiet=(large.only, small.only),
                    facts={"stored": size, "stored_bytes": sizes.stored_bytes},
                )
                for name, here, elsewhere in pairs
            ]
            yield Scene(large.sender, figures)


def _crowd(folder: Path, sizes: Sizes, chosen: Collection[str]) -> Generator[Scene]:
    """A long queue of which half is for suspended partners, and a short one for as many others."""
    each = sizes.queued // sizes.partners
    with Crowd(folder / "long", sizes.partners) as crowd:
        crowd.suspend(every=2)
        with crowd.still():
            crowd.queue(each)
            yield Scene(crowd.msh, [], [Choose(crowd, each * sizes.partners)])
        if "drain" not in chosen:
            return
        with Crowd(folder / "short", sizes.partners // 2) as short:
            with short.still():
                short.queue(SHORT_QUEUE)
            drains = [Drain("drain", one, seconds=5) for one in (crowd, short)]
            quiet = (crowd.msh.paused, short.msh.paused)
            yield Scene(crowd.msh, [Against("drain", *drains, quiet=quiet)])


def _cancel(folder: Path, _sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    """Half of the partners are suspended, with a queue for a job each; the others are sent to."""
    with Crowd(folder, CANCELLED) as crowd:
        crowd.suspend(every=2)
        with crowd.still():
            crowd.queue(CANCELLED_QUEUE)
        yield Scene(crowd.msh, [CancelQueue(crowd), DrainBesideCancel(crowd)])


def _storm(folder: Path, sizes: Sizes, _chosen: Collection[str]) -> Generator[Scene]:
    with Crowd(folder, sizes.partners) as crowd:
        yield Scene(crowd.msh, [RetryStorm(crowd)])


SHORT = (
    Act(
        (
            *("receive_1", "receive_16", "exchange_1", "exchange_16", "exchange_16_to_pyas2"),
            *("bulk_1", "bulk_2", "submit_1", "idle"),
        ),
        _usual,
    ),
    Act(("ebms2_exchange_1", "ebms2_receive_16"), _ebms2),
    Act(
        (
            *("signed_exchange_16", "verify_8_threads", "verify_processes"),
            *("sign_ms", "verify_ms"),
        ),
        _signed,
    ),
    Act(("exchange_200",), _200_pairs),
    Act(("exchange_16_1mb",), _payloads),
)
LONG = (
    Act(("receive_16_tls",), _tls),
    Act(("choose_ms", "drain"), _crowd),
    Act(("cancel_queue", "drain_beside_cancel"), _cancel),
    Act(("retry_storm",), _storm),
    Act(("quiet_partners",), _quiet_partners),
    Act(("stuck_partners",), _stuck_partners),
    Act(("growth_receive", "growth_exchange"), _growth),
    Act(("memory",), _memory),
)
"""Each takes more than two minutes, or needs what not every machine has."""


def names_of(acts: tuple[Act, ...]) -> tuple[str, ...]:
    return tuple(name for act in acts for name in act.names)


def is_chosen(name: str, chosen: Collection[str]) -> bool:
    """Whether this figure is, or is a variant of, one of the chosen ones: exchange_16_to_commits of
    exchange_16. One that has a name of its own is no variant."""
    owners = [one for one in names_of(SHORT + LONG) if name == one or name.startswith(f"{one}_")]
    return max(owners, key=len) in chosen
