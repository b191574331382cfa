"""One POST to be made: what a flow hands to a transport, whatever the URL's scheme."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from msh.faults import CrashPoint

GRACE = 5.0
"""Most seconds from claim to socket write; then the process was stopped, and sends nothing."""

CrashPoints = tuple[CrashPoint, CrashPoint]
COPY_CRASH_POINTS = (CrashPoint.POST_BEFORE_WRITE, CrashPoint.POST_AFTER_WRITE)
SIGNAL_CRASH_POINTS = (CrashPoint.SIGNAL_BEFORE_WRITE, CrashPoint.SIGNAL_AFTER_WRITE)
CONSUMER_CRASH_POINTS = (CrashPoint.CONSUMER_BEFORE_WRITE, CrashPoint.CONSUMER_AFTER_WRITE)


@dataclass(slots=True)
class Lapse:
    """When a job is not to begin any more, by `time.monotonic`. Whoever submitted the job may set
    it anew while it is under way, from another thread. `begun`: its first byte goes out now, or has
    gone."""

    at: float
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """How a partner is reached. `authorities`: certificates in PEM, one of which must have issued
    that of its server; empty: MSH_CA_BUNDLE or the system's. `proxy`: http://user:password@host:port
    or empty. `certificate`: the name of the one in MSH_CLIENT_CERTIFICATES that it is shown; empty:
    that of MSH_CLIENT_CERTIFICATE."""

    authorities: str = ""
    proxy: str = field(default="", repr=False)
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """`key` is the caller's own, handed back untouched.

    `authorization` is the whole header value, "" for none. `deadline` is in seconds and covers
    connecting, writing and the answer (D11). `not_after` is on the clock of `time.monotonic`: if
    it has passed when the first byte would be written, because this process was stopped or
    the machine stood still, nothing is written. `crash_points` are before and after the write.
    `headers` go with the request as they are, `content_type` "" is none. `answer_limit`: an answer
    of at most so many bytes is handed back; 0: none is.
    """

    key: Hashable
    partner_id: int
    url: str
    content_type: str
    body: bytes
    authorization: str
    deadline: float
    not_after: float
    sender: str = ""
    """Our URI on the pair: mail is sent from it."""
    crash_points: CrashPoints = COPY_CRASH_POINTS
    headers: tuple[tuple[str, str], ...] = ()
    answer_limit: int = 0
    message_id: str = ""
    """The MessageId that a mail is about. A mail host that returns the mail names it."""
    access: Access | None = None
    """None: it is not for a partner. Then our certificate is not shown."""
    lapse: Lapse | None = None
    """If set, as `not_after`, but it may still change."""

    def is_late(self, now: float) -> bool:
        return now > self.not_after or (self.lapse is not None and now > self.lapse.at)

    def note_begin(self) -> None:
        if self.lapse is not None:
            self.lapse.begun = True
