"""What one call says, whatever channel it goes by."""

from dataclasses import dataclass
from hashlib import sha256

from django.conf import settings
from django.utils import timezone

from msh.alerts.models import OperatorNotice
from msh.flows.operations.inspection.causes import ANSWERS, CAUSES, Cause, cause_of
from msh.flows.operations.inspection.standing import last_reason, trouble_of
from msh.models import link_of
from msh.protocol.kinds import EARLY_WARNING
from msh.protocol.reason import Reason
from msh.protocol.severity import Severity

KEY_LIMIT = 255
"""Characters of a dedup_key of PagerDuty."""


@dataclass(frozen=True, slots=True)
class Call:
    """`what` is an IncidentKind, or EARLY_WARNING; `title` and `advice` are its cause and what to
    do, in words. `key` is the same for all calls about one thing. `state`: what has become of it
    since, in words. `is_end`: it is over."""

    notice: int
    msh: str
    partner: str
    severity: str
    what: str
    title: str
    advice: str
    message_id: str
    detail: str
    since: str
    console: str
    key: str
    state: str = ""
    is_end: bool = False

    @property
    def headline(self) -> str:
        return f"{'resolved' if self.is_end else self.severity}: {self.partner}: {self.title}"


def call_of(notice: OperatorNotice) -> Call:
    """Return the call of a notice that was read with its partner, the partner's link, and its
    incident."""
    cause = _cause(notice)
    return Call(
        notice=notice.pk,
        msh=settings.MSH_URI,
        partner=notice.partner.name,
        severity=notice.severity,
        what=notice.kind,
        title=cause.title,
        advice="" if notice.is_end else cause.advice,
        message_id=notice.message_id,
        detail=" ".join(notice.detail.split()),
        since=notice.at.isoformat(timespec="seconds"),
        console=_page(notice),
        key=_key(notice),
        state=_state(notice),
        is_end=notice.is_end,
    )


def call_for_test(number: int) -> Call:
    """Return a call that says that it is a test."""
    return Call(
        notice=0,
        msh=settings.MSH_URI,
        partner="(none)",
        severity=Severity.INFO,
        what="test",
        title="Test call",
        advice="No action is needed. An operator sent this call from the console to check that"
        " it arrives.",
        message_id="",
        detail="",
        since="",
        console=console(),
        key=f"msh:test:{number}",
    )


def console(path: str = "") -> str:
    return f"{settings.MSH_CONSOLE_URL.rstrip('/')}/{path}"


def title_of(notice: OperatorNotice) -> str:
    """Say what it is about, in the words of the call."""
    return _cause(notice).title


def _cause(notice: OperatorNotice) -> Cause:
    """Return the cause, by the last answer if that says it."""
    if notice.kind == EARLY_WARNING:
        return CAUSES[EARLY_WARNING]
    reason = Reason(notice.reason)
    if notice.incident is None:
        return cause_of(notice.kind, reason)
    reason = last_reason(notice.incident) if reason not in ANSWERS else reason
    return cause_of(notice.kind, reason, trouble_of(notice.incident, timezone.now()).standing)


def _page(notice: OperatorNotice) -> str:
    if notice.incident_id:
        return console(f"msh/incident/{notice.incident_id}/change/")
    link = link_of(notice.partner, "out")
    return console(f"msh/outboundlink/{link.pk}/change/" if link else "msh/outboundlink/")


def _key(notice: OperatorNotice) -> str:
    about = f"late:{notice.partner_id}:{notice.message_id}"
    if notice.incident_id:
        about = f"incident:{notice.incident_id}"
    key = f"{settings.MSH_URI} {about}"
    return key if len(key) <= KEY_LIMIT else sha256(key.encode()).hexdigest()


def _state(notice: OperatorNotice) -> str:
    """Return the state for a call that was held back, or is one of several."""
    incident = notice.incident
    if notice.is_end or incident is None:
        return ""
    if incident.resolved_at:
        return f"resolved {incident.resolved_at.isoformat(timespec='seconds')}"
    return f"assigned to {incident.assigned_to}" if incident.assigned_to else ""
