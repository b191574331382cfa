"""Values that rows store."""

from enum import StrEnum

EARLY_WARNING = "early_warning"
"""The code of an early warning without an incident: an attempt failed in a way that hints at a
partner that is set up wrongly, and retries remain."""
DUPLICATE = "duplicate"
"""The code of a delivery that was not run: the message had been processed."""


class IncidentKind(StrEnum):
    """Why an operator is called."""

    RETRIES_SPENT = "retries_spent"
    REFUSED_BY_PEER = "refused_by_peer"
    TRANSIENT_LIMIT = "transient_limit"
    RESYNCHRONISE = "resynchronise"
    ERROR_RECEIVED = "error_received"
    SEQUENCE_GAP = "sequence_gap"
    SEQUENCE_STALE = "sequence_stale"
    SEQUENCE_CONFLICT = "sequence_conflict"
    MESSAGE_ID_REUSED = "message_id_reused"
    RESET_HELD = "reset_held"
    DELIVERY_FAILED = "delivery_failed"
    STORE_SHORT = "store_short"
    BACKLOG = "backlog"
    STUCK = "stuck"
    DELIVERY_REJECTED = "delivery_rejected"
    DELIVERY_IN_DOUBT = "delivery_in_doubt"
    NO_CONSUMER = "no_consumer"
    ROUTE_FAILED = "route_failed"
    PROCESSING_FAILED = "processing_failed"
    RETENTION_TOO_SHORT = "retention_too_short"
    CLOCK_DOUBTFUL = "clock_doubtful"
    PARTNER_UNREACHABLE = "partner_unreachable"
    PARTNER_REFUSES = "partner_refuses"
    MESSAGE_EXPIRED = "message_expired"
    PREDECESSOR_MISSING = "predecessor_missing"
    ORDER_RESTARTED = "order_restarted"
    CONVERSATION_STOPPED = "conversation_stopped"
    ANSWER_REFUSED = "answer_refused"
    SIGNATURE_REFUSED = "signature_refused"
    CERTIFICATE_ENDS = "certificate_ends"
    CERTIFICATE_ENDS_SOON = "certificate_ends_soon"
    AGREEMENT_ENDS = "agreement_ends"
    AGREEMENT_ENDED = "agreement_ended"
    WEBHOOK_FAILED = "webhook_failed"
    WENT_AHEAD_ALONE = "went_ahead_alone"
    """An operator did without a second person what needs one."""


class PartyEventKind(StrEnum):
    """The events that the From-Party's application is notified of (D9)."""

    ACKNOWLEDGED = "acknowledged"
    SUSPENDED = "suspended"
    CANCELLED = "cancelled"
    DELAYED = "delayed"
    """No Acknowledgement yet, and retries remain: nothing is to be done."""
    FAILED = "failed"
    """BestEffort: the one attempt was not transmitted (D25). ebMS: nothing more is sent, and it may
    or may not have arrived (EB-082)."""
    WARNING = "warning"
    """The partner warns about a message that it takes (EB-059)."""
    ERROR = "error"
    """The partner reports an Error about a message that it has acknowledged; its state stays."""


class Verdict(StrEnum):
    """The operator's statement about a message that is cancelled in flight: whether the partner has
    it (D18)."""

    RECEIVED = "received"
    NOT_RECEIVED = "not_received"
    UNKNOWN = "unknown"


class OnUnexpectedFirst(StrEnum):
    """The agreement's setting for a number 1 that comes out of turn."""

    ACCEPT = "accept"
    HOLD = "hold"
    REFUSE = "refuse"


class DeliveryState(StrEnum):
    """The states of a delivery, as the document history shows them."""

    NEW = "new"
    PROCESSING = "processing"
    COMPLETED = "completed"
    REJECTED = "rejected"
    FAILED = "failed"
    """Will be run again, at `due`."""
    BLOCKED = "blocked"
    """Its attempts are spent, and it blocks the later messages of its pair until an operator
    decides."""
    PARKED = "parked"
    """Its attempts are spent, and later messages of the pair are delivered without it."""
    IN_DOUBT = "in_doubt"
    """Nobody knows whether the consumer has it."""


class OnFailure(StrEnum):
    """What happens to a message that its consumer does not take, or whose outcome is not known
    (D29)."""

    BLOCK = "block"
    PARK = "park"


class RouteMode(StrEnum):
    """When the router acknowledges (D20)."""

    HOP = "hop"
    """The router acknowledges as soon as it has stored the message, and forwards it afterwards."""
    END_TO_END = "end-to-end"
    """When the next MSH has acknowledged."""
