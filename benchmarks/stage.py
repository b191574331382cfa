"""Two complete MSHs, partners of each other by 16 pairs or more, and 64 more partners of the
second; a third one that messages are only submitted to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demo.keys import Keys

from .load import AckSink
from .msh import Msh
from .report import tell
from .wire import Pair

RECEIVING_PAIRS = 64
EXCHANGING_PAIRS = 16
LOADED_PAIRS = 8
# Long enough that no copy is ever sent again, also on a machine that is busy otherwise.
_RETRIES: dict[str, Any] = {"retries": 3, "retry_interval": 60}
_TERMS: dict[str, Any] = {"timeout": 60, **_RETRIES}
_TERMS_OF = {"trp": _TERMS, "ebms2": {"dialect": "ebms2", "service_type": "name", **_RETRIES}}


class Stage:
    """Runs the MSHs and the sink for the time of a `with`. `loaded`: the third one too. `keys`: how
    the exchanging pairs sign."""

    def __init__(
        self,
        folder: Path,
        *,
        pairs: int = EXCHANGING_PAIRS,
        loaded: bool = False,
        dialect: str = "trp",
        keys: Keys | None = None,
    ) -> None:
        self._dialect = dialect
        self._keys = keys or Keys()
        self.sender = Msh(folder / "sender")
        self.receiver = Msh(folder / "receiver")
        self.loaded = Msh(folder / "loaded")
        self.api_token = ""
        self.sink = AckSink()
        self.pairs = [self._pair(number) for number in range(RECEIVING_PAIRS)]
        self._exchanging_pairs = pairs
        self._mshs = [self.sender, self.receiver, *([self.loaded] if loaded else [])]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self.sink.close)
            for msh in self._mshs:
                stack.callback(msh.stop)
                tell(f"starting the MSH {msh.folder.name}")
                msh.more = self._keys.make(msh.folder.name, msh.folder)
                msh.start()
            numbers = range(self._exchanging_pairs)
            self.sender.set_up([self._exchanging("sender", n) for n in numbers])
            self.receiver.set_up(
                [self._exchanging("receiver", n) for n in numbers]
                + [self._loading(pair) for pair in self.pairs]
            )
            if self.loaded in self._mshs:
                self.api_token = set_up_loaded(self.loaded)
            self._stack = stack.pop_all()
        return self

    @contextmanager
    def only(self, *needed: Msh) -> Iterator[None]:
        """The other MSHs stand still: idle, each would take some percent of the machine."""
        with ExitStack() as stack:
            for msh in self._mshs:
                if msh not in needed:
                    stack.enter_context(msh.paused())
            yield

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _exchanging(self, side: str, number: int) -> dict[str, Any]:
        """The partner that one pair of the exchange is, as `side` knows it."""
        name = f"pair-{number:03d}"
        us, them = self.sender, self.receiver
        our_party, their_party = f"1{number:05d}", f"2{number:05d}"
        if side == "receiver":
            us, them = them, us
            our_party, their_party = their_party, our_party
        return {
            "name": name,
            "our_uri": f"{us.uri}{name}/",
            "uri": f"{them.uri}{name}/",
            "address": f"{them.uri}{name}/",
            "token_in": _token(name, to=us),
            "token_out": _token(name, to=them),
            "agreements": [
                {
                    "tpa_id": name,
                    "our_party": our_party,
                    "their_party": their_party,
                    **_TERMS_OF[self._dialect],
                    **self._keys.terms(them.folder.name),
                }
            ],
        }

    def _pair(self, number: int) -> Pair:
        name = f"load-{number:02d}"
        return Pair(
            name=name,
            sender_uri=f"http://127.0.0.1:{self.sink.port}/{name}/",
            receiver_uri=self.receiver.uri,
            from_party=f"3000{number:02d}",
            to_party="299999",
            tpa_id=name,
            token=_token(name, to=self.receiver),
            dialect=self._dialect,
        )

    def _loading(self, pair: Pair) -> dict[str, Any]:
        return {
            "name": pair.name,
            "our_uri": pair.receiver_uri,
            "uri": pair.sender_uri,
            "address": pair.sender_uri,
            "token_in": pair.token,
            "token_out": f"out-{pair.token}",
            "agreements": [
                {
                    "tpa_id": pair.tpa_id,
                    "our_party": pair.to_party,
                    "their_party": pair.from_party,
                    **_TERMS_OF[self._dialect],
                }
            ],
        }


def set_up_loaded(msh: Msh) -> str:
    """Give it partners that take nothing: what is submitted to them stays where it is. A token for
    its API."""
    msh.set_up([_loaded(loaded_name(number)) for number in range(LOADED_PAIRS)])
    return msh.manage("token", "benchmark", "--scopes", "send").strip()


def _loaded(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "uri": f"http://{name}.invalid/ebxml/",
        "address": "http://127.0.0.1:9/",
        "agreements": [{"tpa_id": name, "our_party": "1", "their_party": "2", **_TERMS}],
    }


def loaded_name(number: int) -> str:
    """Of the partner, and of its agreement."""
    return f"loaded-{number % LOADED_PAIRS}"


def _token(name: str, *, to: Msh) -> str:
    return f"benchmark-{to.folder.name}-{name}-token-of-a-usual-length"
