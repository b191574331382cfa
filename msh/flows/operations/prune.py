"""Retention: what may be removed, and when. In small batches that hold no table.

Only what has ended is removed, payloads first. The id of an inbound message outlives every copy
of it that may still come (D39), and the last number and id of a pair are never removed.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from uuid import uuid4

from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from msh.extension import ExtensionPoint
from msh.flows.errors import Proposal
from msh.flows.operations.guard import allowed
from msh.models import InboundState, PruneRun
from msh.protocol.four_eyes import Act, Verb
from msh.store.clock import read_clock
from msh.store.history import Actor
from msh.store.incidents import note_clock_doubtful, note_retention_too_short
from msh.store.operations import retention as removal
from msh.store.operations.retention import Retention
from msh.store.operations.retention_sql import Removal, kinds
from partners.retention import kept_longer

BATCH = 1000
"""Rows that one transaction removes: few enough that who waits for its locks does not notice."""
APART = timedelta(days=1)
"""How far clocks may be apart: that of the database and this host's now, and that of the database
now and when it dated what is to be removed."""
JUMP = timedelta(days=35)
"""Nobody believes a clock that says that the last run was longer ago, until an operator does."""
LEAST_CHANGES = 366
"""Days. Younger changes of settings cannot be removed: a trigger refuses."""
LEASE = timedelta(minutes=10)
"""For which a run keeps others out after its last batch: more than a batch takes."""
messages_needed: ExtensionPoint[Callable[[], timedelta]] = ExtensionPoint()
"""What a feature still needs of messages and their history: up to which age they stay."""


def retention() -> Retention:
    """The configured times, and a day more: nothing goes early that was dated a day early."""
    keep = timedelta(days=settings.MSH_KEEP_MESSAGES)
    payloads = timedelta(days=settings.MSH_KEEP_PAYLOADS)
    changes = timedelta(days=max(settings.MSH_KEEP_CHANGES, LEAST_CHANGES))
    ids = timedelta(days=settings.MSH_KEEP_IDS)
    return Retention(keep, min(payloads, keep), changes, ids).longer_by(APART)


class ClockDoubtful(RuntimeError):
    """The clock is implausible. `str()` says why, and the cure."""


def require_clock() -> timedelta:
    """By how much the database's clock is ahead of this host's, or nothing if it is behind.

    Raises ClockDoubtful: what one wrong clock removes is gone for good.
    """
    ahead = read_clock() - timezone.now()
    if abs(ahead) > APART:
        raise ClockDoubtful(
            f"The clocks of the database and of this host are {abs(ahead).days} days apart:"
            " nothing is removed until the difference is less than a day."
        )
    return max(ahead, timedelta())


def require_no_jump() -> None:
    """Raises ClockDoubtful if the clock has jumped: that of the one machine that all runs on, or
    those of all machines, which agree then."""
    known = PruneRun.objects.last_known()
    passed = read_clock() - known if known else timedelta()
    if known and passed > JUMP:
        raise ClockDoubtful(
            f"By the clock, {passed.days} days have passed since {known:%Y-%m-%d}, when old rows"
            " were last removed or the newest was written. Nothing is removed until you confirm"
            " that the clock is right: manage.py prune --the-clock-is-right."
        )


def _believe_clock(*, clock_is_right: bool) -> timedelta:
    """As `require_clock`. Operators are called for a doubt, and the time that is believed is noted
    for the next run."""
    try:
        ahead = require_clock()
        if not clock_is_right:
            require_no_jump()
    except ClockDoubtful as doubt:
        note_clock_doubtful(str(doubt))
        raise
    note_clock_doubtful("")
    removal.note_run()
    return ahead


class PruningAlready(RuntimeError):
    """Another run is under way. `str()` is a sentence."""


@contextmanager
def alone() -> Iterator[Callable[[], None]]:
    """One run at a time: a night that lasts longer than a day is not joined by the next one.

    Gives what renews its lease, to be called before each batch. Both raise PruningAlready. A run
    that is killed keeps others out for LEASE.
    """
    holder = uuid4()

    def renew() -> None:
        if not removal.renew_run(holder, LEASE):
            raise PruningAlready(
                "Another run of prune has begun, because this one paused for too long."
            )

    if not removal.claim_run(holder, LEASE):
        raise PruningAlready(
            "Another run of prune is in progress, or was interrupted in the last"
            f" {LEASE.seconds // 60} minutes. Wait until it has ended."
        )
    try:
        yield renew
    finally:
        with suppress(DatabaseError):
            removal.release_run(holder)


Progress = Callable[[str, int], None]
"""Given a kind, and how many of it are removed so far: after each batch."""


def prune_by_hand(
    actor: Actor, progress: Progress = lambda kind, count: None, *, clock_is_right: bool = False
) -> dict[str, int]:
    """As `prune_all`, for a person, who may need a second one. Raises what it raises."""
    confirm(actor, clock_is_right=clock_is_right)
    return prune_all(progress, clock_is_right=clock_is_right)


def confirm(actor: Actor, *, clock_is_right: bool) -> None:
    """That this person may prune now. Removes nothing."""
    with transaction.atomic(), allowed(_proposal(clock_is_right=clock_is_right), actor):
        pass


def _proposal(*, clock_is_right: bool) -> Proposal:
    kept, last = retention(), PruneRun.objects.values_list("at", flat=True).first()
    facts = (
        f"messages are kept for {kept.messages.days} days, payloads for {kept.payloads.days},"
        f" changes for {kept.changes.days}; the last run was {last or 'never'}"
    )
    right = ", and you confirm that the clock is right" if clock_is_right else ""
    text = f"what has ended is removed after {kept.messages.days} days{right}."
    act = Act(Verb.PRUNE, "prune", {"clock_is_right": clock_is_right}, facts)
    return Proposal(act, text)


def prune_all(
    progress: Progress = lambda kind, count: None, *, clock_is_right: bool = False
) -> dict[str, int]:
    """Remove all that may go; how many of each kind went. Raises PruningAlready, ClockDoubtful:
    but for a jump of the clock that is said to be right.

    An agreement that needs its ids for longer keeps them, and an operator is called.
    """
    counts: dict[str, int] = {}
    with alone() as renew:
        # By the one of two clocks that is behind: what is old by a wrong one only is not removed.
        kept = retention().longer_by(_believe_clock(clock_is_right=clock_is_right))
        removal.remove_log_ins(kept)
        kept = kept.at_least(_needed())
        note_retention_too_short(kept_longer())
        for kind, removable in _kinds().items():
            counts[kind] = 0
            for removed in _batches(removable, kept, renew):
                counts[kind] += removed
                progress(kind, counts[kind])
    return counts


def _batches(removable: Removal, kept: Retention, renew: Callable[[], None]) -> Iterator[int]:
    last: int | None = 0
    while last is not None:
        renew()
        with transaction.atomic():
            batch = removal.remove(removable, kept, last, BATCH)
        last = batch.last
        yield batch.count


def _needed() -> timedelta:
    return max((needed() for needed in messages_needed), default=timedelta())


def prunable() -> dict[str, int]:
    """How many of each kind `prune_all` would remove now, if the clock is believed."""
    kept = retention().at_least(_needed())
    return {kind: removal.count(statement, kept) for kind, statement in _kinds().items()}


def unfinished() -> list[str]:
    """Return sentences about rows that are old enough but stay because they have not ended, and
    about what would end them; or because something still needs them."""
    kept = retention()
    to_partners, received = removal.unfinished(kept)
    waits = [_NOT_COUNTED] if kept.at_least(_needed()) != kept else []
    return [
        *waits,
        *(
            f"{count} messages to partners stay, {state}: resume their links, or cancel them."
            for state, count in to_partners.items()
        ),
        *(
            f"{count} received messages stay, {state}: {_ENDS.get(state, _DECIDE)}."
            for state, count in received.items()
        ),
    ]


_NOT_COUNTED = (
    "Messages and payloads stay that the statistics have not counted yet: run prune again in some"
    " minutes."
)
_DECIDE = "have their consumer take them, or mark their deliveries as completed or rejected"
_FORWARD = "resume the links to the next MSH, or cancel what was sent on"
_ENDS: Mapping[str, str] = {
    InboundState.ROUTED: _FORWARD,
    InboundState.WITHHELD: _FORWARD,
    InboundState.FORWARDING: _FORWARD,
    InboundState.HELD: "skip the message that their conversation waits for, or drop them",
}


def _kinds() -> Mapping[str, Removal]:
    return kinds(heard=bool(settings.MSH_FROM_PARTY_HANDLER))
