"""What each kind of incident means, and what an operator should do."""

from dataclasses import dataclass

from msh.protocol.effects import IncidentKind
from msh.protocol.lane import OPERATOR


@dataclass(frozen=True, slots=True)
class Cause:
    """What has happened, and what helps."""

    what: str
    advice: str


CAUSES: dict[str, Cause] = {
    OPERATOR: Cause(
        "Suspended by an operator",
        "Resume when the reason that was given is over.",
    ),
    IncidentKind.RETRIES_SPENT: Cause(
        "Every retry is spent",
        "Find out whether the partner's MSH is up, then resume. It discards the copy and"
        " acknowledges again if it has stored the message already.",
    ),
    IncidentKind.REFUSED_BY_PEER: Cause(
        "The message was refused for good",
        "The same bytes are refused again until what the last error names is mended, here or at"
        " the partner. Then resume.",
    ),
    IncidentKind.TRANSIENT_LIMIT: Cause(
        "The partner asked us to wait too often or for too long",
        "Ask the partner when it takes messages again, then resume.",
    ),
    IncidentKind.RESYNCHRONISE: Cause(
        "The partner's SequenceNumbers and ours have parted",
        "Sending again does not help while they differ. Compare our next number with the last"
        " number and MessageId that the partner accepted.",
    ),
    IncidentKind.ERROR_RECEIVED: Cause(
        "The partner answered with an Error",
        "Ask the partner what is wrong with the message. Resuming sends the same bytes again.",
    ),
    IncidentKind.SEQUENCE_GAP: Cause(
        "A message came, but not those before it",
        "Nothing was stored. The partner was told which numbers are missing and has to send them.",
    ),
    IncidentKind.SEQUENCE_STALE: Cause(
        "An unknown message came under an old number",
        "Nothing was stored. Compare our last number and MessageId with the partner's counter.",
    ),
    IncidentKind.SEQUENCE_CONFLICT: Cause(
        "Another message came under the last number accepted",
        "Nothing was stored. The partner may have been restored from a backup: compare its"
        " counter with our last number and MessageId.",
    ),
    IncidentKind.MESSAGE_ID_REUSED: Cause(
        "A known MessageId came with other content",
        "Nothing was stored. The partner has to send the changed message under its own MessageId.",
    ),
    IncidentKind.RESET_HELD: Cause(
        "The partner started again with number 1 and is held",
        "Ask the partner whether it reset its counter.",
    ),
    IncidentKind.STORE_SHORT: Cause(
        "There is no room for new messages",
        "Partners are told to wait. Make room on the disk or raise the limit: it is resolved by"
        " itself when messages come in again.",
    ),
    IncidentKind.BACKLOG: Cause(
        "The application does not keep up with this partner",
        "The partner is told to wait. Look at what the consumer does: it is resolved by itself when"
        " messages come in again.",
    ),
    IncidentKind.STUCK: Cause(
        "Nothing moves on this link, although there is work",
        "What the detail names is mended there: resume the link, deliver again, switch the consumer"
        " on or start it. Else see whether worker and beat run. It is resolved by itself when"
        " something moves; resolved by you, it is told again if nothing does.",
    ),
    IncidentKind.DELIVERY_FAILED: Cause(
        "The application does not take a message",
        "Its attempts are spent. Look at the delivery's last error and mend it at the application."
        " Then have the delivery run again, or decide otherwise.",
    ),
    IncidentKind.DELIVERY_REJECTED: Cause(
        "The application rejected a message",
        "A business error: the message is kept and not run again. Settle it with the partner, then"
        " resolve this; or have the delivery run again after all.",
    ),
    IncidentKind.DELIVERY_IN_DOUBT: Cause(
        "Nobody knows whether the application has a message",
        "A worker died while the application had it. Look there for the MessageId, which was sent"
        " as Idempotency-Key. Then mark the delivery completed, or have it run again.",
    ),
    IncidentKind.NO_CONSUMER: Cause(
        "No consumer takes a message",
        "It waits, and its pair behind it. Add a consumer for its partner, ServiceInterface and"
        " Action: it is resolved by itself then.",
    ),
    IncidentKind.ROUTE_FAILED: Cause(
        "A message cannot be sent on to the next MSH",
        "Look at the route of its To party and at the agreement with the partner it leads to. What"
        " was stored is tried again by itself; what was refused, its sender has to resume.",
    ),
    IncidentKind.PROCESSING_FAILED: Cause(
        "A message or a signal could not be processed",
        "The detail names the error: a row that cannot be read, or a defect of this MSH, whose log"
        " has the traceback. Nothing else is held up by it. When it is mended, resume the link, or"
        " cancel the message.",
    ),
    IncidentKind.CLOCK_DOUBTFUL: Cause(
        "Nothing old is removed: the clock is in doubt",
        "It is about the whole MSH, not about this partner. Compare the clock of the database's"
        " machine with a clock that you trust. If it is wrong, set it. If it is right, because the"
        " MSH stood still for so long, run manage.py prune --the-clock-is-right once: it is"
        " resolved by the next run.",
    ),
    IncidentKind.RETENTION_TOO_SHORT: Cause(
        "MessageIds of a partner are kept for longer than is configured",
        "A copy may come for so long under its agreement that MSH_KEEP_MESSAGES is too short: only"
        " its MessageIds are kept for longer, all else goes when it is time. Set it higher, or"
        " shorten the agreement's retries: it is resolved by itself in the next night.",
    ),
}
