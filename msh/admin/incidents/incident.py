"""Incidents: list, and the page of one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.framework.bulk import bulk_url
from msh.admin.framework.headline import ALARM, Headline, Jump
from msh.admin.framework.pages import Table
from msh.admin.framework.runbooks import runbook_url
from msh.admin.links import resynchronise
from msh.admin.links.advice import cause_of_link
from msh.admin.links.conversation import (
    CONVERSATIONS,
    link_to_conversation_of,
    links_to_waiting,
)
from msh.admin.links.outbound_actions import RESUME
from msh.admin.links.outbound_conversation import first_stopping
from msh.extension import ExtensionPoint
from msh.flows.operations import change_incident
from msh.flows.operations.actions import ASSIGN_TO_ME
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.causes import CAUSES, Cause, Help, cause_of
from msh.flows.operations.inspection.standing import (
    DELIVERIES,
    Trouble,
    failed_for,
    last_attempt,
    last_reason,
    trouble_of,
)
from msh.flows.operations.inspection.ways import Standing
from msh.flows.operations.operator_action import OperatorAction
from msh.models import (
    HELD,
    BulkAction,
    Consumer,
    Delivery,
    Direction,
    Flight,
    InboundConversation,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    link_of,
)
from msh.protocol.kinds import IncidentKind

from . import incident_actions
from .first_step import deliveries_url, first_steps, to_assign
from .incident_list import IncidentList

tables_about: ExtensionPoint[Callable[[Incident], Table]] = ExtensionPoint()
"""What features show on the page of an incident."""
NOTES = 100
"""Notes shown for one incident."""


@admin.register(Incident)
class IncidentAdmin(IncidentList):
    without_fields = True
    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    operator_actions = incident_actions.ACTIONS

    def offers(
        self,
        request: HttpRequest,
        row: Incident,
        actions: Iterable[ActionDialog[Incident]] | None = None,
    ) -> list[Offer]:
        """The actions that help come first: those of the link that resume it, if it is suspended
        for this incident, or those of the one message that is stopped for it."""
        offers = super().offers(request, row, actions)
        if row.resolved_at is not None:
            return offers
        if not change_incident.suspends(row):
            return [*_of_message(request, row), *offers]
        out_of_sync = _cause(row).helps[0] is Help.RESYNCHRONISE
        resuming = [one.action for one in (resynchronise.ACTIONS if out_of_sync else (RESUME,))]
        wanted = (*resuming, *acts_of(_cause(row).text))
        links: Any = admin.site.get_model_admin(OutboundLink)
        of_link = links.offers(request, row.partner.outbound_link)
        return [*(one for one in of_link if one.action.action in wanted), *offers]

    def tables(self, request: HttpRequest, row: Incident) -> list[Table]:
        return [_notes(row), *(table(row) for table in tables_about)]

    def page_context(self, request: HttpRequest, row: Incident) -> dict[str, object]:
        decided = row.resolved_at or change_incident.suspends(row)
        steps = {} if decided else first_steps(request, [row])
        jumps = [*_many(request, row), *steps.values()]
        if _of_message(request, row):  # which is the filled button
            jumps = [replace(jump, recommended=False) for jump in jumps]
        jumps = [replace(one, recommended=one is jumps[0] and one.recommended) for one in jumps]
        taking = to_assign(request, row)
        shown: dict[str, object] = {"headline": self.head(row), "jumps": [*jumps, *taking]}
        if taking:  # a button, instead of the dialog
            offers = self.offers(request, row)
            shown["offers"] = [one for one in offers if one.action.action is not ASSIGN_TO_ME]
        return shown

    def advised(self, row: Incident) -> Sequence[OperatorAction]:
        return () if row.resolved_at else acts_of(_cause(row).text)

    def head(self, incident: Incident) -> Headline:
        opened = incident.resolved_at is None
        since = '{} <span class="msh-note">since {}, {}</span>'
        at = incident.opened_at
        return Headline(
            badge=format_html(since, self.status(incident), markup.time_of(at), markup.age_of(at)),
            sentence=_cause(incident).title if opened else self.what(incident),
            advice=self.advice(incident) if opened else "",
            tone=ALARM if opened else "",
            facts=[
                ("Link", self.link(incident)),
                ("Last MessageId", self.message(incident)),
                ("Last response", _last_response(incident)),
                ("Last detail", self.detail_text(incident)),
                *self._places(incident),
                ("Last seen", markup.time_of(incident.last_at)),
                ("Occurrences", incident.count),
                ("Assigned to", self.whose(incident)),
                ("Next call", _next_call(incident)),
                ("Resolved", markup.time_of(incident.resolved_at)),
                ("Resolved by", incident.resolved_by),
                ("Resolution", markup.verbatim(incident.resolution)),
            ],
        )

    def _places(self, incident: Incident) -> list[tuple[str, object]]:
        """Where the operator decides, for what the link does not decide."""
        if incident.kind in CONVERSATIONS:
            return [("Waiting conversations", self.conversations(incident))]
        if incident.kind == IncidentKind.ORDER_RESTARTED:
            key, last = incident.partner_id, incident.message_id
            return [("Conversation", link_to_conversation_of(key, last))]
        consumer = [("Consumer", markup.link_to(one)) for one in _consumers(incident.consumer)]
        if incident.kind in DELIVERIES:
            return [*consumer, ("Deliveries", self.deliveries(incident))]
        return list(consumer)

    @display(description="Problem")
    def what(self, incident: Incident) -> str:
        return CAUSES[incident.kind].title

    @display(description="Recommended action")
    def advice(self, incident: Incident) -> str:
        cause = _cause(incident)
        shown = '{} <a href="{}" class="text-link">Runbook</a>'
        return format_html(shown, cause.advice, runbook_url(cause))

    @display(description="Deliveries")
    def deliveries(self, incident: Incident) -> str:
        """Links to the lists of the deliveries that need a decision."""
        states = DELIVERIES[incident.kind]
        lists = [(deliveries_url(incident, state), state.replace("_", " ")) for state in states]
        link = '<a href="{}" class="text-link">{} deliveries of this partner</a>'
        return format_html_join(", ", link, lists)

    @display(description="Waiting conversations")
    def conversations(self, incident: Incident) -> str:
        return links_to_waiting(CONVERSATIONS[incident.kind], incident.partner_id)


def _consumers(name: str) -> QuerySet[Consumer]:
    """At most one: names are unique."""
    return Consumer.objects.filter(name=name).select_related("partner")


def _trouble(incident: Incident) -> Trouble:
    """Read once for this incident."""
    if _READ not in vars(incident):
        vars(incident)[_READ] = trouble_of(incident, timezone.now())
    found: Trouble = vars(incident)[_READ]
    return found


def _cause(incident: Incident) -> Cause:
    """By what stands still for it, and by the last answer. Read once: each action asks for it."""
    if _CAUSE not in vars(incident):
        suspends = change_incident.suspends(incident)
        found = cause_of_link(incident.partner.outbound_link) if suspends else None
        vars(incident)[_CAUSE] = found or cause_of(
            incident.kind, last_reason(incident), _trouble(incident).standing
        )
    cause: Cause = vars(incident)[_CAUSE]
    return cause


def _of_message(request: HttpRequest, incident: Incident) -> list[Offer]:
    """Return the actions that the advice names, on the one row that is stopped for the incident."""
    row = None if incident.resolved_at else _row_of(incident)
    if row is None:
        return []
    page: Any = admin.site.get_model_admin(type(row))
    shown = page.get_object(request, str(row.pk))
    wanted = acts_of(_cause(incident).text)
    offers: list[Offer] = page.offers(request, shown) if wanted and shown else []
    return [offer for offer in offers if offer.action.action in wanted]


def _row_of(incident: Incident) -> Model | None:
    """The message, delivery, conversation or link that stands still; None if there are several."""
    key = incident.partner_id
    if incident.direction == Direction.OUT:
        stopped = incident.kind == IncidentKind.CONVERSATION_STOPPED
        if stopped and _trouble(incident).standing is Standing.BROKEN:
            return _only(OutboundConversation.objects.waiting().filter(link__partner=key))
        several = _count_failed(incident) > 1 or (stopped and not first_stopping(key))
        return None if several else _trouble(incident).message
    if incident.kind in DELIVERIES:
        of_partner = Delivery.objects.filter(message__link__partner=key)
        return _only(of_partner.filter(state__in=DELIVERIES[incident.kind]))
    if incident.kind == IncidentKind.PREDECESSOR_MISSING:
        waiting = InboundConversation.objects.waiting()
        return _only(waiting.filter(link__partner=key, called=True))
    return link_of(incident.partner, "in") if incident.kind == IncidentKind.RESET_HELD else None


def _only(rows: QuerySet[Any]) -> Model | None:
    found = list(rows[:2])
    return found[0] if len(found) == 1 else None


def _many(request: HttpRequest, incident: Incident) -> list[Jump]:
    """To what stands still for the incident, if that is more than one message."""
    if incident.resolved_at:
        return []
    partner = {"link__partner__id__exact": str(incident.partner_id)}
    if (count := _count_failed(incident)) > 1:
        url = bulk_url(request, BulkAction.SUBMIT_AGAIN, incident=str(incident.pk))
        act = Jump(f"Submit these {count} again", "forward", url, True)
        words, state = "Failed", OutboundState.FAILED.value
    elif (count := _count_held(incident)) > 1:
        url = bulk_url(request, BulkAction.RESUME_MESSAGES, **partner)
        act, words, state = Jump(f"Resume these {count}", "play_arrow", url, True), "Held", HELD
    else:
        return []
    where = markup.list_url(OutboundMessage, state__exact=state, **partner)
    return [*([act] if url else []), Jump(f"{words} messages", "mail", where, True)]


def _count_failed(incident: Incident) -> int:
    is_failed = _trouble(incident).standing is Standing.FAILED
    return failed_for(incident).count() if is_failed else 0


def _count_held(incident: Incident) -> int:
    """How many messages to its partner are held, whatever for: they are resumed together."""
    is_held = _trouble(incident).standing is Standing.HELD
    held = Flight.objects.filter(link__partner=incident.partner_id, state=HELD)
    return held.count() if is_held else 0


_READ = "trouble_as_read"
_CAUSE = "cause_as_read"


def _next_call(incident: Incident) -> str:
    """When the next recipients are called if nobody is assigned until then."""
    if incident.next_turn is None or incident.resolved_at or incident.assigned_to:
        return ""
    return format_html("{} unless it is assigned", markup.time_of(incident.next_turn))


def _last_response(incident: Incident) -> str:
    """Return the partner's answer to the last copy of its message, or why there is none."""
    last = last_attempt(incident)
    return markup.last_answer(markup.ending_of(last)) if last else ""


def _notes(incident: Incident) -> Table:
    rows = [
        (markup.time_of(note.at), note.author, markup.verbatim(note.text))
        for note in incident.notes.order_by("-pk")[:NOTES]
    ]
    return Table("Notes, newest first", ("At", "By", "Note"), rows, "No notes.")
