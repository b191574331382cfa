"""Where traces of messages are recorded, from submit to Acknowledgement: MSH_OTLP_ENDPOINT.

Off, `recorder` is None, and a path pays one look at it: `if trace_hook.recorder is not None: …`.
Nothing of OpenTelemetry is imported then. On, `msh.tracing` is one of the INSTALLED_APPS, and puts
its recorder here.
"""

import logging
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

    from msh.protocol.attempt import AttemptResult

logger = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]


class Post(Protocol):
    """A POST that is made: `msh.transport.job.Job`."""

    @property
    def key(self) -> Hashable: ...

    @property
    def url(self) -> str: ...

    @property
    def headers(self) -> Headers: ...


class Recorder(Protocol):
    """What a process tells of a message. Nothing of it raises."""

    def begin(self, environ: "WSGIEnvironment") -> None:
        """This thread answers a request from now on."""

    def note_message(
        self, partner_id: int, message_id: str, kind: str = "", ref_to_message_id: str = ""
    ) -> None:
        """The request of this thread is a message or signal of a partner, of this kind."""

    def watch(self, start_response: "StartResponse") -> "StartResponse":
        """The request of a partner ends when its answer starts."""

    def submitted(self, message_id: str, partner_id: int) -> None:
        """Called after the commit."""

    def submitted_many(self, messages: Sequence[tuple[str, int]]) -> None:
        """MessageId and partner of each. Called after the commit."""

    def headers_for(self, post: Post) -> Headers:
        """Return the headers to be added to a POST."""

    def posted(self, post: Post, result: "AttemptResult | None", seconds: float) -> None:
        """`result` None: it was stale, nothing was written."""

    def delivered(self, message_id: str, consumer: str, error: str, seconds: float) -> None:
        """To a consumer in this process; `error` "": it succeeded."""


recorder: Recorder | None = None


@contextmanager
def harmless() -> Iterator[None]:
    """An error becomes a line in the log: what is traced goes on."""
    try:
        yield
    except Exception:
        logger.exception("a span could not be recorded")


def start(new: Recorder) -> None:
    """Record spans from now on."""
    global recorder
    recorder = new


def apps(endpoint: str, share: float) -> list[str]:
    """Return what these settings add to INSTALLED_APPS. A check names what is wrong with them."""
    return ["msh.tracing"] if endpoint and 0 <= share <= 1 and is_installed() else []


def is_installed() -> bool:
    """The extra `otel`."""
    try:
        return all(map(find_spec, ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk")))
    except ModuleNotFoundError:  # a package above it
        return False
