"""The numbers of two MSHs are out of sync: what may be lost or duplicated, and how to repair it.

Both sides are compared by number *and* MessageId before anything is changed (D17, D43). Nobody is
ever renumbered by a guess: what cannot be proven is asked of a person.
"""

from dataclasses import dataclass
from enum import StrEnum

from . import sequence
from .events import Numbered
from .link_status import LinkStatus


@dataclass(frozen=True, slots=True)
class Run:
    """Stored messages of one epoch: the first and last number, and how many there are."""

    epoch: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Sent:
    """Our sending side. `anchor` is our own message that the partner accepted last, as we numbered
    it: maybe not as the partner says. None if it is not among ours. `after_anchor` are the
    messages numbered after it, oldest first, that the partner is to have; without an anchor,
    those of the present epoch."""

    next_number: int
    in_flight_number: int | None = None
    in_flight_message_id: str = ""
    anchor: Numbered | None = None
    after_anchor: tuple[Run, ...] = ()

    @property
    def coming(self) -> int:
        return self.next_number if self.in_flight_number is None else self.in_flight_number


class Repair(StrEnum):
    """What makes the numbers of both sides agree again."""

    NOTHING = "nothing"
    REWIND = "rewind"
    ADOPT = "adopt"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class Plan:
    """`text` tells what has happened, `lost` and `duplicated` what may be, empty if nothing.

    `completes`: the partner proves that it has the message in flight. `last` is for REWIND,
    `next_number` for ADOPT.
    """

    repair: Repair
    text: str
    lost: str = ""
    duplicated: str = ""
    completes: bool = False
    last: Numbered | None = None
    next_number: int = sequence.FIRST

    @property
    def changes(self) -> bool:
        return self.repair in (Repair.REWIND, Repair.ADOPT) or self.completes

    @property
    def verdict(self) -> str:
        risks = [("may lose", self.lost), ("may duplicate", self.duplicated)]
        text = ", ".join(f"{what} {whom}" for what, whom in risks if whom)
        harmless = "no loss, no duplicates"
        return text or (harmless if self.is_known else "not known yet")

    @property
    def is_known(self) -> bool:
        """False if a person has to say more before anybody can tell what may come of it."""
        return self.repair is not Repair.ASK


def plan(ours: Sent, theirs: LinkStatus) -> Plan:
    """Compare the numbers from us to the partner, and return what repairs them."""
    flying = ours.in_flight_message_id
    if flying in theirs.withheld:
        return Plan(Repair.NOTHING, _held_back(ours))
    completes = bool(flying) and theirs.acknowledges(flying)
    coming = ours.next_number if completes else ours.coming
    if coming == theirs.expected:
        text, lost = _agreed(ours, completes, coming), _unknown(ours, theirs)
        return Plan(Repair.NOTHING, text, lost=lost, completes=completes)
    anchor, last = ours.anchor, theirs.accepted_number
    if anchor is not None and anchor.sequence_number == last:
        return _anchored(ours, theirs, anchor, completes)
    if anchor is not None and last is not None and not sequence.is_ahead(last, ours.next_number):
        return _contradicted(anchor, theirs)
    if last is None and ours.after_anchor:
        return _rewind(ours.after_anchor, None)
    return _adopt(ours, theirs, completes)


def _held_back(ours: Sent) -> str:
    return (
        f"The partner has number {ours.in_flight_number} and is forwarding it: it acknowledges"
        " when the next MSH has acknowledged. Wait, or ask the partner's operator what delays it."
    )


def _agreed(ours: Sent, completes: bool, coming: int) -> str:
    if completes:
        number = ours.in_flight_number
        return (
            f"The partner has number {number}; its Acknowledgement was lost. The next number is"
            f" {coming}."
        )
    return f"The numbers agree: the partner expects {coming}, which is our next number."


def _unknown(ours: Sent, theirs: LinkStatus) -> str:
    """The text about the message that the partner accepted last, if it is not the one that we sent
    under this number."""
    last = theirs.accepted_number
    if last is None or (ours.anchor is not None and ours.anchor.sequence_number == last):
        return ""
    return (
        f"what the partner has under number {last}: its MessageId, {theirs.accepted_message_id},"
        f" {_here(ours)}"
    )


def _here(ours: Sent) -> str:
    if ours.anchor is None:
        return "is unknown here"
    return f"has number {ours.anchor.sequence_number} here"


def _contradicted(anchor: Numbered, theirs: LinkStatus) -> Plan:
    """Both numbers were given here, to two messages: what one of the two sides reports is wrong."""
    number, message_id = theirs.accepted_number, theirs.accepted_message_id
    text = (
        f"The partner reports that it accepted number {number} last, as {message_id}, which has"
        f" number {anchor.sequence_number} here. Ask the partner for both again. If the answer is"
        " the same, agree with the partner on what is missing, then reset the sequence."
    )
    return Plan(Repair.ASK, text)


def _anchored(ours: Sent, theirs: LinkStatus, anchor: Numbered, completes: bool) -> Plan:
    if ours.after_anchor:
        return _rewind(ours.after_anchor, anchor)
    if ours.next_number == sequence.FIRST:
        text = "Our numbers restart at 1. The partner accepts this if its agreement allows resets."
        return Plan(Repair.NOTHING, text, completes=completes)
    if asked := _asked_for(ours, theirs, completes):
        return asked
    number = sequence.following(anchor.sequence_number)
    text = f"The partner has everything; it expects {number}, not {ours.next_number}."
    return Plan(Repair.ADOPT, text, completes=completes, next_number=number)


def _rewind(again: tuple[Run, ...], anchor: Numbered | None) -> Plan:
    """The partner was restored from a backup: it no longer has messages that it had
    acknowledged."""
    last = anchor or Numbered(0, again[0].epoch)
    since = f"nothing after number {last.sequence_number}" if anchor else "none of our messages"
    if missing := _missing(again, last):
        text = (
            f"The partner has {since}, and part of what is missing is no longer stored here:"
            f" {missing}. Agree with the partner on what to do about it, then reset the sequence."
        )
        return Plan(Repair.ASK, text, lost=missing)
    first, end, count = again[0].first, again[-1].last, sum(run.count for run in again)
    numbers = f"number {first}" if count == 1 else f"numbers {first} to {end}"
    text = (
        f"The partner has {since}: it was restored from a backup, or it is a new installation."
        f" {numbers.capitalize()} ({count} in all)"
        f" {'is' if count == 1 else 'are'} sent again, with the same bytes, one at a time; then the"
        " queue."
    )
    before = "" if anchor or last.epoch == 1 else "what was sent before the numbers restarted at 1"
    duplicated = (
        f"{numbers}, in the partner's application, if it was not restored together with its MSH"
    )
    return Plan(Repair.REWIND, text, lost=before, duplicated=duplicated, last=last)


def _missing(again: tuple[Run, ...], last: Numbered) -> str:
    """Which numbers after `last` are not stored, "" if all are. An epoch begins with 1, or goes
    on where the one before it ended."""
    end, epoch = last.sequence_number, last.epoch
    for run in again:
        goes_on = run.first == end % sequence.LAST + 1
        if not goes_on and (run.epoch == epoch or run.first != sequence.FIRST):
            return f"numbers {end % sequence.LAST + 1} to {sequence.preceding(run.first)}"
        if run.count != run.last - run.first + 1:
            return f"some of the numbers {run.first} to {run.last}"
        end, epoch = run.last, run.epoch
    return ""


def _adopt(ours: Sent, theirs: LinkStatus, completes: bool) -> Plan:
    """The last message that the partner accepted is none of ours, or went again under an earlier
    number: we were restored."""
    if asked := _asked_for(ours, theirs, completes):
        return asked
    start, end = ours.next_number if completes else ours.coming, theirs.accepted_number
    text = (
        f"The partner accepted number {end} under a MessageId that {_here(ours)}: this MSH was"
        f" restored from a backup. Our next message gets number {theirs.expected}."
    )
    ahead = end is not None and sequence.is_ahead(end, start)
    numbers = f"numbers {start} to {end}" if ahead else f"our numbers after {end}"
    lost = (
        f"what became of {numbers}: they were sent after the backup was made, and are not"
        " in this store"
        if ahead
        else f"{numbers}: the partner does not have them"
    )
    duplicated = (
        "messages that applications submit again with new MessageIds because they are missing here"
    )
    return Plan(
        Repair.ADOPT,
        text,
        lost=lost,
        duplicated=duplicated if ahead else "",
        completes=completes,
        next_number=theirs.expected,
    )


def _asked_for(ours: Sent, theirs: LinkStatus, completes: bool) -> Plan | None:
    flying = ours.in_flight_message_id
    if not flying or completes or theirs.has(flying) is not None:
        return None
    text = (
        f"The partner accepted number {theirs.accepted_number}, which is not the one before ours."
        f" Ask it whether it has the message in flight, {flying}, and enter the answer (on the"
        f" command line: --has or --lacks {flying})."
    )
    return Plan(Repair.ASK, text)


class Arriving(StrEnum):
    """How the partner's numbers compare with those that we accepted."""

    UNKNOWN = "unknown"
    AGREED = "agreed"
    RESTARTED = "restarted"
    WE_LACK = "we lack messages"
    THEY_FORGOT = "the partner forgot messages"


def arriving(expected: int, theirs: LinkStatus, has_in_flight: bool) -> tuple[Arriving, str]:
    """Compare the numbers from the partner to us. Returns the result, and a sentence for operators.

    `expected`: the number we take next. `has_in_flight`: we have the message that it has in flight.
    """
    coming = theirs.coming
    if coming is None:
        return Arriving.UNKNOWN, "It is not known which number the partner sends next."
    if has_in_flight or coming == expected:
        return Arriving.AGREED, f"The numbers agree: we expect {expected}."
    if sequence.is_ahead(coming, expected):
        last = sequence.preceding(coming)
        text = (
            f"The partner sends {coming} next and we expect {expected}: we lack {expected} to"
            f" {last}. The partner must send them again (resynchronise there); only if it"
            f" cannot, give them up: expect NAME --number {coming}."
        )
        return Arriving.WE_LACK, text
    if coming == sequence.FIRST:
        text = f"The partner restarts at 1; we expect {expected}."
        return Arriving.RESTARTED, text
    text = (
        f"The partner sends {coming} next and we expect {expected}: it was restored and must"
        f" continue with {expected} (resynchronise there). Until then its messages are refused."
    )
    return Arriving.THEY_FORGOT, text
