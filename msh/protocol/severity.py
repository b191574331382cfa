"""The severity of each kind of incident: what is listed first, and who is called."""

from datetime import timedelta
from enum import StrEnum

from msh.protocol.kinds import EARLY_WARNING, IncidentKind


class Severity(StrEnum):
    """Severities of incidents, from the least to the worst."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    def reaches(self, least: "Severity") -> bool:
        """Whether it is as bad as `least`, or worse."""
        return _RANK[self] >= _RANK[least]


_RANK = {severity: rank for rank, severity in enumerate(Severity)}
_MINUTE = timedelta(minutes=1)
_INFO = (
    IncidentKind.RETENTION_TOO_SHORT,
    IncidentKind.ORDER_RESTARTED,
    IncidentKind.CERTIFICATE_ENDS,
    IncidentKind.AGREEMENT_ENDS,
)
_WARNING = (
    IncidentKind.SEQUENCE_GAP,
    IncidentKind.SEQUENCE_STALE,
    IncidentKind.SEQUENCE_CONFLICT,
    IncidentKind.MESSAGE_ID_REUSED,
    IncidentKind.SIGNATURE_REFUSED,
    IncidentKind.CERTIFICATE_ENDS_SOON,
    IncidentKind.AGREEMENT_ENDED,
    IncidentKind.RESET_HELD,
    IncidentKind.BACKLOG,
    IncidentKind.DELIVERY_REJECTED,
    IncidentKind.CLOCK_DOUBTFUL,
    IncidentKind.WEBHOOK_FAILED,
    IncidentKind.MESSAGE_EXPIRED,
    IncidentKind.PREDECESSOR_MISSING,
    IncidentKind.WENT_AHEAD_ALONE,
)
_BY_KIND: dict[str, Severity] = {
    **dict.fromkeys(_INFO, Severity.INFO),
    **dict.fromkeys(_WARNING, Severity.WARNING),
    EARLY_WARNING: Severity.WARNING,
}


def severity_of(kind: str) -> Severity:
    """Return the severity of `kind`, an IncidentKind or EARLY_WARNING. Critical means that messages
    wait until somebody acts, as with a kind that nobody has judged."""
    return _BY_KIND.get(kind, Severity.CRITICAL)


def weight(severity: Severity, waiting: int, age: timedelta) -> float:
    """Return how bad a trouble is beside others: the product of its severity, of the messages that
    wait and of its age. A step of severity is as bad as ten times the messages, or the age."""
    return 10.0 ** _RANK[severity] * (1 + waiting) * (1 + max(age, timedelta()) / _MINUTE)
