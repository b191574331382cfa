"""The specification's own words, spelled once; and how a sentence writes a time."""

from datetime import UTC, datetime
from enum import StrEnum


def utc_text(at: datetime, *, to: str = "seconds") -> str:
    """2026-11-23 22:05:00 UTC. `to`: "seconds" or "minutes", the smallest that is written."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(' ', to)} UTC"


class MessageType(StrEnum):
    NORMAL = "Normal"
    ACKNOWLEDGEMENT = "Acknowledgement"  # 000 §2.1.3 spells it so (D37)
    ERROR = "Error"

    @property
    def is_signal(self) -> bool:
        """A signal is never answered, and has no number."""
        return self is not MessageType.NORMAL


class DeliverySemantics(StrEnum):
    ONCE_AND_ONLY_ONCE = "OnceAndOnlyOnce"
    BEST_EFFORT = "BestEffort"


class Severity(StrEnum):
    WARNING = "Warning"
    TRANSIENT_ERROR = "TransientError"
    HARD_ERROR = "HardError"


class ErrorCode(StrEnum):
    """Codes of an Error Message (D26). An unknown code on input reads as `Unknown`."""

    TRANSIENT_ERROR = "TransientError"
    SEQUENCE_GAP = "SequenceGap"
    SEQUENCE_STALE = "SequenceStale"
    SEQUENCE_CONFLICT = "SequenceConflict"
    MESSAGE_ID_REUSED = "MessageIdReused"
    VALUE_NOT_RECOGNIZED = "ValueNotRecognized"
    NOT_SUPPORTED = "NotSupported"
    INCONSISTENT = "Inconsistent"
    OTHER_XML = "OtherXml"
    MIME_PROBLEM = "MimeProblem"
    SECURITY_FAILURE = "SecurityFailure"
    DELIVERY_FAILURE = "DeliveryFailure"
    TIME_TO_LIVE_EXPIRED = "TimeToLiveExpired"
    UNKNOWN = "Unknown"

    @property
    def severity(self) -> Severity:
        if self is ErrorCode.TRANSIENT_ERROR:
            return Severity.TRANSIENT_ERROR
        return Severity.HARD_ERROR


RESYNCHRONISE = frozenset(
    {ErrorCode.SEQUENCE_CONFLICT, ErrorCode.SEQUENCE_GAP, ErrorCode.SEQUENCE_STALE}
)
"""Codes that mean: our numbers and the Receiver's are out of sync."""
