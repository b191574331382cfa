"""What the pages of ordered conversations of both directions share."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.filters import PartnerFilter
from msh.admin.framework.headline import ALARM, Headline
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.framework.runbooks import runbook_url
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.causes import CAUSES
from msh.flows.operations.inspection.ways import words_of
from msh.flows.operations.operator_action import OperatorAction
from msh.models import (
    InboundConversation,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundConversation,
    OutboundLink,
)
from msh.protocol.kinds import IncidentKind
from partners.models import Partner

AnyConversation = TypeVar("AnyConversation", OutboundConversation, InboundConversation)

CONVERSATIONS: dict[str, type[OutboundConversation | InboundConversation]] = {
    IncidentKind.CONVERSATION_STOPPED: OutboundConversation,
    IncidentKind.PREDECESSOR_MISSING: InboundConversation,
}
"""The conversations that an incident of this kind is about."""
FIRST_ROWS = 10


class ConversationAdmin(LargeTableAdmin[AnyConversation]):
    """The list has those that wait for something; the search finds all."""

    search_fields = ("conversation_id",)
    search_help_text = "Complete ConversationId, waiting or not"
    list_filter = (("link__partner", PartnerFilter),)
    without_fields = True
    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    incident: IncidentKind

    def waiting(self, rows: Any) -> QuerySet[AnyConversation]:
        waiting: QuerySet[AnyConversation] = rows.waiting()
        return waiting

    def waits(self, row: AnyConversation) -> bool:
        raise NotImplementedError

    def badge(self, row: AnyConversation) -> str:
        raise NotImplementedError

    def sentence(self, row: AnyConversation) -> str:
        raise NotImplementedError

    def facts(self, row: AnyConversation) -> list[tuple[str, object]]:
        """What its page shows beside the partner, the agreement and the numbers."""
        raise NotImplementedError

    def advice(self, row: AnyConversation) -> str:
        """With marks of the actions that it names; empty if it does not stand still."""
        raise NotImplementedError

    def advised(self, row: AnyConversation) -> Sequence[OperatorAction]:
        return acts_of(self.advice(row))

    def numbers(self, row: AnyConversation) -> str:
        """Return the last complete number, the next one, and those in between, as sentences."""
        raise NotImplementedError

    def get_queryset(self, request: HttpRequest) -> QuerySet[AnyConversation]:
        rows: QuerySet[AnyConversation] = super().get_queryset(request)
        return rows.select_related("link__partner", "agreement__partner")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[AnyConversation], search_term: str
    ) -> tuple[QuerySet[AnyConversation], bool]:
        term = search_term.strip()
        return (self.search(request, queryset, term) if term else self.waiting(queryset)), False

    def search(self, request: HttpRequest, rows: Any, term: str) -> QuerySet[AnyConversation]:
        named: QuerySet[AnyConversation] = rows.named(term)
        return named

    def page_context(self, request: HttpRequest, row: AnyConversation) -> dict[str, object]:
        return {"headline": self.head(row)}

    def head(self, row: AnyConversation) -> Headline:
        waits = self.waits(row)
        of_kind = Incident.objects.filter(partner=row.link.partner_id, kind=self.incident)
        incident = of_kind.filter(resolved_at=None).first() if waits else None
        numbers = f"{self.numbers(row)} The first message of a conversation has number 0."
        return Headline(
            badge=self.badge(row),
            sentence=self.sentence(row),
            advice=self._advice(row),
            tone=ALARM if waits else "",
            facts=[
                ("Partner", self.partner(row)),
                ("Agreement", self.under(row)),
                ("ConversationId", self.identity(row)),
                ("Incident", markup.link_to(incident, CAUSES[self.incident].title))
                if incident
                else ("", ""),
                *self.facts(row),
                ("Numbers", format_html('<span class="msh-long">{}</span>', numbers)),
            ],
        )

    def _advice(self, row: AnyConversation) -> str:
        if not (advice := words_of(self.advice(row))):
            return ""
        runbook = runbook_url(CAUSES[self.incident])
        return format_html('{} <a href="{}" class="text-link">Runbook</a>', advice, runbook)

    @display(description="ConversationId")
    def identity(self, row: AnyConversation) -> str:
        return markup.isolated(row.conversation_id)

    @display(description="Partner")
    def partner(self, row: AnyConversation) -> str:
        return markup.link_to(row.link, row.link.partner)

    @display(description="Agreement")
    def under(self, row: AnyConversation) -> str:
        return markup.link_to(row.agreement, row.agreement.tpa_id)

    @display(description="Status")
    def status(self, row: AnyConversation) -> str:
        return self.sentence(row)


def waiting_table(
    link: OutboundLink | InboundLink,
    rows: QuerySet[Any],
    title: str,
    headers: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
) -> list[Table]:
    """The conversations of a link that wait, on its page. None if there is none and no agreement
    is ordered."""
    shown = [
        (markup.link_to(one), markup.link_to(one.agreement, one.agreement.tpa_id), *cells(one))
        for one in rows.filter(link=link).select_related("agreement")[:FIRST_ROWS]
    ]
    if not shown and not is_ordered(link.partner):
        return []
    more = markup.list_url(rows.model, link__partner__id__exact=link.partner_id)
    return [Table(title, ("ConversationId", "TPAId", *headers), shown, "None.", more)]


def is_ordered(partner: Partner) -> bool:
    """Whether one of its agreements is ordered. Uses the agreements read with the partner, if there
    are any."""
    return any(agreement.has_order for agreement in partner.agreements.all())


def list_numbers(first: Sequence[int | None], count: int) -> str:
    """The first of `count` numbers, and how many more there are."""
    shown = ", ".join(str(one) for one in first[:FIRST_ROWS])
    return f"{shown} and {count - FIRST_ROWS} more" if count > FIRST_ROWS else shown


def link_to_conversation_of(partner_id: int, message_id: str) -> str:
    """Return the link to the conversation of a message that was received in order."""
    of_partner = InboundMessage.objects.filter(link__partner=partner_id, message_id=message_id)
    message = of_partner.only("agreement", "conversation_id").first()
    if message is None:
        return markup.DASH
    named = InboundConversation.objects.named(message.conversation_id)
    conversation = named.filter(agreement=message.agreement_id).first()
    return markup.link_to(conversation) if conversation else markup.DASH


def links_to_waiting(model: type[OutboundConversation | InboundConversation], key: int) -> str:
    """Links to the first of this partner's, and to the list of them."""
    waiting = model.objects.waiting().filter(link__partner=key)
    more = markup.list_url(model, link__partner__id__exact=key)
    shown = [(markup.link_to(one),) for one in waiting[:FIRST_ROWS]]
    every = format_html('<a href="{}" class="text-link">all of this partner</a>', more)
    return format_html_join(", ", "{}", [*shown, (every,)])
