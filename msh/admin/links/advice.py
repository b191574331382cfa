"""Advice about a suspended link for this user: what helps first is the filled button; a user
without the permission is told the role that has it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import JSONObject
from django.http import HttpRequest
from django.urls import reverse

from msh.admin.framework import markup
from msh.admin.framework.audited import settings_url, with_back
from msh.admin.framework.headline import Jump
from msh.admin.framework.permitted import whom_to_ask
from msh.admin.framework.runbooks import runbook_url
from msh.admin.setup import partner as setup
from msh.admin.setup.connection import TEST_PERMISSIONS
from msh.flows.operations import link_actions
from msh.flows.operations.inspection.causes import (
    ANSWERS,
    ERROR_MESSAGES,
    Cause,
    Help,
    cause_of,
    retrying,
)
from msh.flows.operations.inspection.sender_refused import what_to_tell
from msh.flows.operations.inspection.shared_address import shared_address
from msh.flows.operations.inspection.standing import standing_of_link
from msh.models import Attempt, OutboundLink
from msh.protocol.lane import OPERATOR, LaneState
from msh.protocol.reason import Reason, deciding
from partners.models.partner import OutgoingKind

from .cancelling import is_cancelling
from .lane_view import last_answer_of
from .link_view import view_of
from .maintenance import END, window_of
from .other_partner import hints, may_be_of_another

_NEEDS = {
    Help.RESUME: (link_actions.RESUME.permissions, "resume"),
    Help.RESYNCHRONISE: (link_actions.RESYNCHRONISE.permissions, "resynchronise"),
    Help.PARTNER: (("partners.change_partner",), "change the partner's settings"),
    Help.CONNECTION: (TEST_PERMISSIONS, "test the connection"),
    Help.MESSAGE: (("msh.view_outboundmessage",), "view the message"),
}
"""The permissions of each, and what it is to do."""
_ACTIONS = {Help.RESUME: link_actions.RESUME, Help.RESYNCHRONISE: link_actions.RESYNCHRONISE}
_SECTIONS = {
    "credentials": setup.AUTHENTICATION,
    "address": setup.DESTINATION,
    "name": setup.DESTINATION,
}
"""By runbook, the section of the partner's settings to correct."""

_ENTER_AGAIN = (
    "Have our credential at hand: if host, port or scheme of the address change, it must be entered"
    " again, so that nobody can have it sent to another host."
)
_IN_MAINTENANCE = (
    "A maintenance window is running, and resumes the link at its end. If the maintenance is over,"
    " end the window: sending resumes, and operators are called about the partner again."
)


@dataclass(frozen=True, slots=True)
class Advice:
    """`ask`: whom, if this user may not do what helps first; `asked`: that, if it is an action."""

    text: str
    runbook: str
    jumps: Sequence[Jump]
    ask: str
    asked: object = None


def with_last_answer(links: QuerySet[OutboundLink]) -> QuerySet[OutboundLink]:
    """With how the last attempt of the message in flight ended, as `last_answer`."""
    ended = Attempt.objects.filter(message=OuterRef("in_flight"), ended_at__isnull=False)
    answer = JSONObject(number="number", outcome="outcome", detail="detail", reason="reason")
    newest = ended.order_by("-number").values(answer=answer)
    return links.annotate(last_answer=Subquery(newest[:1]))


def cause_of_link(link: OutboundLink) -> Cause | None:
    """Return the cause of its suspension. `link` should have `last_answer`, as the list of links
    has it."""
    if link.state != LaneState.SUSPENDED:
        return None
    return cause_of(link.suspended_for, _reason_of(link), standing_of_link(link))


def cause_name(link: OutboundLink) -> str:
    """Return the name that links share which are suspended for the same cause."""
    if link.late_ack:
        return "acknowledged-late"
    reason = _reason_of(link)
    of_the_answer = cause_of(link.suspended_for, reason) is ANSWERS.get(reason)
    return f"{link.suspended_for}.{reason}" if of_the_answer else str(link.suspended_for)


def last_words(link: Any) -> str:
    """The last answer, or what else is known; of an operator the reason, and of an Error Message
    what it says. Needs `last_answer`."""
    told = link.suspended_for in (OPERATOR, *ERROR_MESSAGES) or _is_out_of_step(link)
    if told or not link.last_answer:
        return str(link.suspended_detail)
    return str(link.last_answer["detail"] or link.suspended_detail)


def _is_out_of_step(link: OutboundLink) -> bool:
    """Whether the partner has named that as the reason, if only after the suspension."""
    return bool(link.suspended_reason == Reason.NUMBERS)


def _reason_of(link: OutboundLink) -> Reason:
    last = last_answer_of(link)
    answered = Reason(last["reason"]) if last else Reason.NONE
    return deciding(Reason(link.suspended_reason), answered)


def helps_first(link: OutboundLink, what: Help) -> bool:
    if link.late_ack:
        return what is Help.RESUME
    cause = cause_of_link(link)
    return cause is not None and cause.helps[0] is what


def advice_on(link: OutboundLink, request: HttpRequest) -> Advice | None:
    if link.state != LaneState.SUSPENDED:
        return _advice_while_retrying(link, request)
    cause = cause_of_link(link)
    if cause is None or link.late_ack:
        return None
    if (window := window_of(link)) is not None and not is_cancelling(link):
        return _advice_in_maintenance(window, cause, request)
    others = _other_partner(link, cause)
    told = [*_refused_sender(link), *others, cause.advice, *_kept_credential(link, cause)]
    text = " ".join(told)
    return Advice(
        text,
        runbook_url(cause),
        list(_jumps(link, cause, request)),
        _ask(cause, request),
        _ACTIONS.get(cause.helps[0]),
    )


def _advice_in_maintenance(window: int, cause: Cause, request: HttpRequest) -> Advice:
    may = END.is_permitted(request)
    url = reverse("admin:msh_maintenancewindow_end", args=[window])
    jumps = [Jump(END.title, END.icon, url, recommended=True)] if may else []
    ask = "" if may else whom_to_ask(request, END.action.permissions, "end the window")
    return Advice(_IN_MAINTENANCE, runbook_url(cause), jumps, ask)


def _other_partner(link: OutboundLink, cause: Cause) -> Sequence[str]:
    if not may_be_of_another(cause):
        return ()
    shared = shared_address(link.partner)
    return [*([shared] if shared else []), *hints([(link, last_words(link))])]


def _refused_sender(link: OutboundLink) -> Sequence[str]:
    """Return what to tell the partner if it does not permit us to send."""
    if _reason_of(link) is not Reason.SENDER:
        return ()
    flying = link.in_flight
    agreement = flying.agreement if flying else link.partner.agreements.first()
    if agreement is None:
        return ()
    told = what_to_tell(
        last_words(link),
        tpa_id=agreement.tpa_id,
        our_party=agreement.our_party,
        their_party=agreement.their_party,
        our_uri=link.partner.our_uri_or_default,
    )
    return [told]


def _kept_credential(link: OutboundLink, cause: Cause) -> Sequence[str]:
    shown = _SECTIONS.get(cause.runbook) == setup.DESTINATION
    return [_ENTER_AGAIN] if shown and link.partner.outgoing_kind != OutgoingKind.NONE else []


def waits_as_asked(link: OutboundLink) -> bool:
    """Whether nothing is sent on it because the partner asked us to wait, and said for how long."""
    if link.state == LaneState.TRANSIENT:
        return True
    return link.state == LaneState.WAITING and view_of(link).retried(link) is Reason.WAIT


def _advice_while_retrying(link: OutboundLink, request: HttpRequest) -> Advice | None:
    """No button is the one that helps: the link may get along by itself."""
    reason = view_of(link).retried(link)
    cause = retrying(reason) if reason else None
    if cause is None:
        return None
    jumps = list(_jumps(link, cause, request, recommended=False))
    text = " ".join([cause.advice, *_kept_credential(link, cause)])
    return Advice(text, runbook_url(cause), jumps, "")


def _jumps(
    link: OutboundLink, cause: Cause, request: HttpRequest, *, recommended: bool = True
) -> Iterator[Jump]:
    for way in cause.helps:
        found = _page(link, way, cause, request.path)
        if found and request.user.has_perms(_NEEDS[way][0]):
            busy = "Testing, up to 30 seconds …" if way is Help.CONNECTION else ""
            yield Jump(*found, recommended, busy)
            recommended = False


def _page(link: OutboundLink, way: Help, cause: Cause, back: str) -> tuple[str, str, str] | None:
    """Title, icon and URL; None of an action, or if there is nothing to go to. `back`: the page to
    return to when the settings are saved."""
    match way:
        case Help.PARTNER:
            section = _SECTIONS.get(cause.runbook)
            where = settings_url(link.partner, back) + (f"#{section}" if section else "")
            return "Partner settings", "handshake", where
        case Help.CONNECTION:
            for agreement in link.partner.agreements.all():
                where = reverse("admin:partners_agreement_connection", args=[agreement.pk])
                return "Test connection", "cable", with_back(where, back)
        case Help.MESSAGE if link.in_flight:
            return "Message in flight", "mail", markup.page_url(link.in_flight)
    return None


def _ask(cause: Cause, request: HttpRequest) -> str:
    """Return whom to ask for what helps first, and for the other pages that the advice names."""
    pages = [way for way in cause.helps[1:] if way not in _ACTIONS]
    asked = [whom_to_ask(request, *_NEEDS[way]) for way in (*cause.helps[:1], *pages)]
    return " ".join(dict.fromkeys(filter(None, asked)))
