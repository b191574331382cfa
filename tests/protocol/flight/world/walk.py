"""A walk through the exchange of ebMS by chance."""

from collections.abc import Callable

from msh.protocol import events as on
from tests.protocol.walk import Walk

from .exchange import Fate, World, stray
from .receiving import ReceivingCores
from .sending import SendingCores

ENDINGS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
FATES = tuple(Fate)
SECONDS = (0, 1, 3, 5, 10, 60, -10, -1_000, -100_000, 100_000)
KINDS = ("unordered", "expires", "ordered")


class EbmsWalk(Walk):
    steps = 60

    def __init__(
        self,
        seed: int,
        sending: SendingCores = SendingCores(),  # noqa: B008  frozen
        receiving: ReceivingCores = ReceivingCores(),  # noqa: B008  frozen
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        super().__init__(seed)
        kind = self.draw.choice(kinds)
        self.world: World = World(
            sending,
            receiving,
            window=self.draw.randint(1, 3),
            ordered=kind == "ordered",
            time_to_live=40 if kind == "expires" else 0,
            silence=self.draw.choice(("fail", "hold")),
        )
        self.fates = self.draw.choice((FATES, (Fate.ARRIVES,) * 8 + FATES))

    def possible(self) -> list[Callable[[], None]]:
        world = self.world
        possible = [self._submit, self._sweep, self._claim, world.sender.crashes]
        possible += [self._work, self._act, self._fill]
        possible += [self._post, self._end] * bool(world.sender.attempts)
        possible += [self._arrive] * bool(world.copies)
        possible += [self._answer] * bool(world.receiver.pending)
        possible += [self._arrive_back] * bool(world.signals)
        possible += [self._disturb] * bool(world.first_copies)
        return possible

    def _submit(self) -> None:
        for _ in range(self.draw.randint(1, 4)):
            self.world.sender.submits(self.draw.choice("abc"), self.world.now)

    def _sweep(self) -> None:
        self.world.passes(self.draw.choice(SECONDS))
        self.world.sender.sweeps(self.world.now)
        self.world.receiver.sweeps(self.world.now)

    def _claim(self) -> None:
        self.world.sender.claims(self.world.now)

    def _work(self) -> None:
        copies, signals = self.draw.choice(self.fates), self.draw.choice(self.fates)
        ending = self.draw.choice(ENDINGS[:2])
        for _ in range(self.draw.randint(1, 4)):
            self.world.round_of_work(copies, signals, ending)

    def _post(self) -> None:
        self.world.post(self.index(self.world.sender.attempts))

    def _end(self) -> None:
        index = self.index(self.world.sender.attempts)
        self.world.attempt_ends(index, self.draw.choice(ENDINGS), reached=self.coin())

    def _arrive(self) -> None:
        self.world.copy_meets(self.index(self.world.copies), self.draw.choice(self.fates))

    def _answer(self) -> None:
        self.world.signal_sent(self.index(self.world.receiver.pending), recorded=self.coin())

    def _arrive_back(self) -> None:
        self.world.signal_meets(self.index(self.world.signals), self.draw.choice(self.fates))

    def _disturb(self) -> None:
        message_id = self.draw.choice(list(self.world.first_copies))
        self.world.signals.append(stray(message_id, warning=self.coin()))

    def _act(self) -> None:
        self.draw.choice(self.world.legal_acts())()

    def _fill(self) -> None:
        self.world.receiver.full = self.coin()
