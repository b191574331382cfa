"""Links to partners: list, suspended ones first, and the page of one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from html import unescape
from typing import Any

from django.contrib import admin
from django.db.models import Case, F, IntegerField, QuerySet, When
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, strip_tags
from unfold.decorators import display

from msh.admin.framework import curves, markup
from msh.admin.framework.actions import ActionDialog, Offer
from msh.admin.framework.bulk import BulkPage
from msh.admin.framework.filters import DateTimeFilter, GivenFilter, WordsFilter
from msh.admin.framework.pages import ReadOnlyAdmin, Table
from msh.admin.framework.time_format import format_seconds
from msh.admin.messages.history import history_of_link
from msh.admin.setup.connection import TEST_PERMISSIONS
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.causes import ERROR_MESSAGES
from msh.flows.operations.inspection.copies import under_way
from msh.flows.operations.inspection.why_not_acknowledged import COPY_UNDER_WAY
from msh.flows.operations.operator_action import OperatorAction
from msh.models import BulkAction, Direction, OutboundLink, OutboundMessage
from msh.protocol.lane import LaneState
from msh.protocol.reason import Reason
from msh.store.operations.bulk_jobs import with_cancelling
from partners.models import Agreement

from . import (
    cancel_and_reset,
    maintenance,
    outbound_actions,
    resynchronise,
)
from .advice import advice_on, cause_name, cause_of_link, with_last_answer
from .cancelling import cancelling_notices
from .counters import growth, with_places, with_queue
from .link_view import open_incidents, sentence_of, state_of, variant_of, view_of

Column = Callable[[OutboundLink], str]
URGENCY = Case(
    When(state=LaneState.SUSPENDED, then=0),
    When(state=LaneState.TRANSIENT, then=1),
    When(state=LaneState.WAITING, then=2),
    default=3,
    output_field=IntegerField(),
)


class SuspendedSinceFilter(DateTimeFilter):
    title = "Suspended since"
    parameter_name = "since"

    def bounded(self, queryset: QuerySet[OutboundLink], at: datetime) -> QuerySet[OutboundLink]:
        return queryset.filter(suspended_since__gte=at)


class CauseFilter(GivenFilter):
    """Suspended for one cause, as the dashboard groups them."""

    title = "cause"
    parameter_name = "cause"

    def given(self, queryset: QuerySet[OutboundLink], value: str) -> QuerySet[OutboundLink]:
        suspended = with_last_answer(OutboundLink.objects.suspended())
        return queryset.filter(pk__in=[link.pk for link in suspended if cause_name(link) == value])


@admin.register(OutboundLink)
class OutboundLinkAdmin(BulkPage, ReadOnlyAdmin[OutboundLink]):
    bulk = (BulkAction.RESUME,)
    list_display = ("partner", "doing", "blocking", "answer", "queue")
    list_filter = (("state", WordsFilter), SuspendedSinceFilter, CauseFilter)
    list_filter_submit = True
    search_fields = ("partner__name", "partner__display_name", "partner__uri")
    search_help_text = "Partner or its URI"
    sortable_by = ("doing", "queue")
    list_before_template = "admin/msh/framework/live_list.html"
    operator_actions = (
        *outbound_actions.ACTIONS,
        *resynchronise.ACTIONS,
        *cancel_and_reset.ACTIONS,
        *outbound_actions.PLAIN,
        maintenance.PLAN,
    )
    acted_on = OutboundLink.objects.select_related("partner", "in_flight__agreement")
    change_form_outer_before_template = "admin/msh/links/outbound_headline.html"
    change_form_outer_after_template = None

    def get_fields(self, request: HttpRequest, obj: OutboundLink | None = None) -> Sequence[str]:
        return view_of(obj).fields if obj else ()

    def get_ordering(self, request: HttpRequest) -> Sequence[Case | OrderBy | str]:
        return [URGENCY, F("suspended_since").asc(nulls_last=True), "partner__name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboundLink]:
        links: QuerySet[OutboundLink] = super().get_queryset(request)
        joined = links.select_related("partner", "in_flight__agreement")
        answered = with_last_answer(joined.prefetch_related("partner__agreements"))
        return with_places(with_queue(maintenance.with_window(with_cancelling(answered))))

    def get_list_display(self, request: HttpRequest) -> Sequence[str | Column]:
        return (*self.list_display, self._actions_column(request))

    def _actions_column(self, request: HttpRequest) -> Column:
        """The last column: the frequent actions. The others are on the page of the link, where the
        one that helps is filled."""

        def actions(link: OutboundLink) -> str:
            offered = self.offers(request, link, outbound_actions.ACTIONS)
            offers = [replace(one, recommended=False) for one in offered]
            context = {"offers": offers, "compact": True}
            return render_to_string("admin/msh/framework/actions.html", context)

        return actions

    @display(description="Status", ordering=Coalesce("suspended_since", Now()))
    def doing(self, link: OutboundLink) -> str:
        return render_to_string("admin/msh/links/outbound_line.html", _situation(link))

    @display(description="In flight")
    def blocking(self, link: OutboundLink) -> str:
        return view_of(link).in_flight(link)

    @display(description="Queue", ordering="queued")
    def queue(self, link: Any) -> str:
        if not link.oldest:
            return str(link.queued)
        age = markup.age_of(link.oldest)
        return format_html('<div>{}<div class="msh-note">oldest {}</div></div>', link.queued, age)

    @display(description="Last error")
    def last_error(self, link: Any) -> str:
        if link.suspended_for in ERROR_MESSAGES or link.suspended_reason == Reason.NUMBERS:
            return markup.local_times(link.suspended_detail)
        return markup.last_answer(link.last_answer)

    @display(description="Last error")
    def answer(self, link: OutboundLink) -> str:
        """In the list: its beginning, whole on hover."""
        shown = self.last_error(link)
        whole = unescape(strip_tags(shown))
        return format_html('<div class="msh-clipped" title="{}">{}</div>', whole, shown)

    @display(description="Terms in force")
    def terms_in_force(self, link: OutboundLink) -> str:
        flying = link.lane.in_flight
        if flying is None:
            return "those of the agreement of the next message, see Agreements below"
        terms = flying.terms
        return (
            f"Timeout {format_seconds(terms.timeout)}, Retries {terms.retries}, RetryInterval"
            f" {format_seconds(terms.retry_interval)}: without an Acknowledgement the link is"
            f" suspended after {format_seconds(terms.retry_horizon)}"
        )

    @display(description="Destination")
    def where(self, link: OutboundLink) -> str:
        return markup.verbatim(link.partner.destination)

    @display(description="If the partner does not answer")
    def when_silent(self, link: OutboundLink) -> str:
        partner = link.partner
        probe = (
            f"probed every {format_seconds(partner.probe_interval)}"
            if partner.probe_interval and not partner.never_probe
            else ""
        )
        late = "a late Ack resumes sending" if partner.resume_on_late_ack else ""
        return ", ".join(each for each in (probe, late) if each) or "only an operator can resume"

    @display(description="Submissions")
    def applications(self, link: OutboundLink) -> str:
        return "accepted" if link.partner.accepts else "refused by an operator"

    def advised(self, row: OutboundLink) -> Sequence[OperatorAction]:
        cause = cause_of_link(row)
        return acts_of(cause.text) if cause and not row.late_ack else ()

    def offers(
        self,
        request: HttpRequest,
        row: OutboundLink,
        actions: Iterable[ActionDialog[OutboundLink]] | None = None,
    ) -> list[Offer]:
        """With what the advice names of its message in flight."""
        offers = super().offers(request, row, actions)
        if actions is not None or row.in_flight is None:
            return offers
        page: Any = admin.site.get_model_admin(OutboundMessage)
        advised = self.advised(row)
        wanted = [one for one in page.operator_actions if one.action in advised]
        return [*offers, *page.offers(request, row.in_flight, wanted)]

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, object]:
        link: OutboundLink = row
        view, advice = view_of(link), advice_on(link, request)
        shown = {
            "facts": view.facts,
            "advice": advice,
            "windows": maintenance.windows_of(request, link.partner_id),
            "cancelling": cancelling_notices(link),
            "queue": self.queue(link),
            "last_error": self.last_error(link),
            "address": self.where(link),
            "growth": growth(link.partner_id, row.queued, moves=_moves(link)),
            "live": bool(row.queued) or link.state != LaneState.IDLE,
            "charts": curves.charts(curves.About(partners=(link.partner_id,))),
            "incidents": [(url, what) for url, what, _ in open_incidents(link, Direction.OUT)],
        }
        if advice and advice.ask and advice.asked:  # said once: with the advice
            shown["withheld"] = self.withheld(request, link, but_for=advice.asked)
        situation = _situation(link)
        if link.state == LaneState.SUSPENDED and under_way(link):
            situation["sentence"] = f"{situation['sentence']} {COPY_UNDER_WAY}"
        return situation | shown | view.context(link)

    def tables(self, request: HttpRequest, link: OutboundLink) -> list[Table]:
        may_test = request.user.has_perms(TEST_PERMISSIONS)
        connection = _connection if may_test else _no_connection
        tables = view_of(link).tables(link, connection=connection)
        return [*tables, history_of_link(link.partner_id, Direction.OUT)]


def _moves(link: OutboundLink) -> bool:
    """Whether its queue goes on at the rate so far: not while it is suspended, was asked to wait,
    or retries."""
    waits = link.state in (LaneState.SUSPENDED, LaneState.TRANSIENT)
    return not waits and view_of(link).retried(link) is None


def _situation(link: Any) -> dict[str, object]:
    detail = link.suspended_detail
    if link.last_answer and detail == link.last_answer["detail"]:
        detail = ""  # already shown as Last error
    return {
        "link": link,
        "badge": markup.badge(state_of(link), variant_of(link)),
        "cause": cause_of_link(link),
        "detail": markup.local_times(detail) if detail else "",
        "since": markup.time_of(link.suspended_since),
        "age": markup.age_of(link.suspended_since),
        "sentence": sentence_of(link),
    }


def _no_connection(agreement: Agreement) -> str:
    return markup.DASH


def _connection(agreement: Agreement) -> str:
    url = reverse("admin:partners_agreement_connection", args=[agreement.pk])
    return format_html('<a href="{}" class="text-link">test connection</a>', url)
