"""What is on its way between two MSHs, one clock, and what must hold in every dialect."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar

from msh.protocol import events as on
from msh.protocol.vocabulary import ErrorCode
from tests.protocol.tables.form import NOW

LONGEST_WAIT = timedelta(seconds=20)
ROUNDS_TO_HEAL = 40

Act = Callable[[], object]
Ending = type[on.AttemptEvent]


class Violation(AssertionError):
    """The exchange broke a promise."""


class Fate(Enum):
    """What becomes of a copy or a signal on the link."""

    ARRIVES = "arrives"
    REPEATED = "arrives, and stays on its way"
    LOST = "is lost"


@dataclass(frozen=True)
class Copy:
    """One copy of a message on the wire. `order`: its number, as the dialect writes it."""

    message_id: str
    order: Any
    conversation: str = ""
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Signal:
    """An Acknowledgement, or an Error if there is a code. `answer_id`: its own MessageId."""

    ref_to_message_id: str
    code: ErrorCode | None = None
    min_retry_secs: int | None = None
    answer_id: int = 0
    warning: bool = False


@dataclass
class Attempt:
    """A copy in the hands of a worker: lost in a crash. `lapses`: when a worker that it was
    promised to may not begin any more, by a clock that nobody sets; None: no row says otherwise.
    `shared`: another worker may have been given the same one."""

    number: int
    copy: Copy
    lapses: float | None = None
    posted: bool = False
    shared: bool = False

    def may_begin(self, ticks: float) -> bool:
        return not self.posted and (self.lapses is None or ticks <= self.lapses)


class World(ABC):
    """The two hosts, what is on its way between them, one clock, and the promises.

    The sending host has `attempts`, `submits` (into a conversation), `sweeps` (deadlines pass),
    `claims` (a worker takes a copy that is to be sent; False if there is none), `ends` (a worker
    records how its POST ended) and `receives`; the receiving one `pending`, `full`, `stored` and
    `receives`. `steps`: how many things happen in one walk.
    """

    steps: ClassVar[int]
    sender: Any
    receiver: Any

    def __init__(self, sender: Any, receiver: Any) -> None:
        self.sender, self.receiver = sender, receiver
        self.now = NOW
        self.ticks = 0.0
        """Seconds, by a clock that is never set."""
        self.copies: list[Copy] = []
        self.signals: list[Signal] = []
        self.first_copies: dict[str, Copy] = {}
        self.acknowledgments: dict[str, int] = {}
        self.acknowledged: set[str] = set()
        """Of whom an Ack has arrived at the Sender."""

    # --- what a dialect has of its own ----------------------------------------------------

    @property
    @abstractmethod
    def message_ids(self) -> list[str]:
        """Those that were submitted."""

    @abstractmethod
    def legal_acts(self) -> list[Act]:
        """What operators of both sides may do now, each as a call."""

    @abstractmethod
    def stray(self, draw: random.Random) -> Signal | None:
        """A signal that the Receiver never meant."""

    @abstractmethod
    def happenings(self, draw: random.Random) -> list[Act]:
        """What may happen in this dialect alone, each as a call."""

    @abstractmethod
    def check(self) -> None:
        """Raises Violation if a promise is broken."""

    @abstractmethod
    def is_settled(self) -> bool: ...

    @abstractmethod
    def people_act(self) -> None:
        """They do what they are asked to do."""

    @abstractmethod
    def time_passes(self) -> None:
        """To the next thing that is due, if nothing may be done before."""

    def sweeps(self) -> None:
        self.sender.sweeps(self.now)

    def claim_all(self) -> None:
        while self.sender.claims(self.now):
            self.check()

    # --- the Sender's workers -------------------------------------------------------------

    def submit(self, conversation: str = "a") -> None:
        self.sender.submits(conversation, self.now)

    def post(self, index: int) -> None:
        """A worker's copy goes onto the wire, unless it is too late for what it was promised."""
        attempt = self.sender.attempts[index]
        if not attempt.may_begin(self.ticks):
            return
        attempt.posted = True
        copy = attempt.copy
        first = self.first_copies.setdefault(copy.message_id, copy)
        if copy != first:
            raise Violation(f"altered: {copy}, first sent as {first}")
        self.copies.append(copy)

    def attempt_ends(self, index: int, ending: Ending, *, reached: bool = True) -> None:
        """The worker learns how its POST ended, rightly or wrongly, and records it."""
        attempt = self.sender.attempts.pop(index)
        if attempt.posted or attempt.may_begin(self.ticks):
            self.sender.ends(attempt, ending, reached, self.now)

    # --- the link -------------------------------------------------------------------------

    def copy_meets(self, index: int, fate: Fate) -> None:
        copy = self.copies[index]
        if fate is not Fate.REPEATED:
            del self.copies[index]
        if fate is not Fate.LOST:
            self.receiver.receives(copy, self.now)

    def signal_sent(self, index: int, *, recorded: bool) -> None:
        """If a crash keeps it from being recorded, it stays pending: it will be sent again."""
        pending = self.receiver.pending
        signal = pending.pop(index) if recorded else pending[index]
        ref = signal.ref_to_message_id
        if signal.code is None:
            if ref not in self.receiver.stored:
                raise Violation(f"premature Ack of {ref}")
            if self.acknowledgments.setdefault(ref, signal.answer_id) != signal.answer_id:
                raise Violation(f"a second Ack of {ref}")
        self.signals.append(signal)

    def signal_meets(self, index: int, fate: Fate) -> None:
        signal = self.signals[index]
        if fate is not Fate.REPEATED:
            del self.signals[index]
        if fate is Fate.LOST:
            return
        if signal.code is None:
            self.acknowledged.add(signal.ref_to_message_id)
        self.sender.receives(signal, self.now)

    def passes(self, seconds: float) -> None:
        """Time passes; negative: the clock is set back."""
        self.now += timedelta(seconds=seconds)
        self.ticks += max(0.0, seconds)

    # --- when everything goes well again --------------------------------------------------

    def heals(self) -> None:
        """The link is sound, people do their work: everything must end."""
        self.receiver.full = False
        for _ in range(ROUNDS_TO_HEAL * (2 + len(self.message_ids))):
            if self.is_settled():
                break
            self.round_of_work()
        else:
            raise Violation(f"no exit: {vars(self.sender)}, {vars(self.receiver)}")
        while self.copies:
            self.copy_meets(0, Fate.ARRIVES)
        while self.receiver.pending:
            self.signal_sent(0, recorded=True)
        while self.signals:
            self.signal_meets(0, Fate.ARRIVES)
        self.check()

    def round_of_work(
        self,
        copies: Fate = Fate.ARRIVES,
        signals: Fate = Fate.ARRIVES,
        ending: Ending = on.AttemptTransmitted,
    ) -> None:
        """One round: people do what they are asked to do, and what is new on the link meets its
        fate. What was on its way before stays there, to arrive late."""
        self.people_act()
        self.time_passes()
        self.sweeps()
        self.claim_all()
        while self.sender.attempts:
            under_way = len(self.copies)
            self.post(0)
            if len(self.copies) > under_way:
                self.copy_meets(-1, copies)
            self.attempt_ends(0, ending, reached=copies is not Fate.LOST)
            self.check()
        while self.receiver.pending:
            self.signal_sent(0, recorded=True)
            self.signal_meets(-1, signals)
            self.check()
