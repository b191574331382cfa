"""The page of a partner. Its settings are a page of their own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from msh.admin.framework import curves, markup
from msh.admin.framework.actions import Offer
from msh.admin.framework.audited import settings_url
from msh.admin.framework.headline import ALARM, Headline, Jump
from msh.admin.framework.pages import Table, at_once
from msh.admin.framework.second_person import asked_about
from msh.admin.framework.time_format import format_seconds
from msh.admin.links.advice import advice_on
from msh.admin.links.cancelling import cancelling_notices
from msh.admin.links.link_view import sentence_of, state_of, variant_of
from msh.admin.links.maintenance import PLAN, windows_of
from msh.admin.links.outbound_actions import RESUME
from msh.admin.setup.connection import TEST_PERMISSIONS
from msh.extension import ExtensionPoint
from msh.flows.operations.inspection.causes import CAUSES
from msh.flows.operations.inspection.shared_address import shared_address
from msh.models import InboundLink, Incident, OutboundLink, OutboundMessage, OutboundState
from msh.protocol.lane import LaneState
from partners.models import Agreement, Partner
from partners.models.partner import OutgoingKind

from .stops import stops_of

tables_of_partner: ExtensionPoint[Callable[[HttpRequest, Partner], Iterable[Table]]] = (
    ExtensionPoint()
)
"""What features show on it."""
ROWS = 20
"""Open incidents that are shown."""


def partner_page(request: HttpRequest, key: int) -> HttpResponse:
    if not request.user.has_perm("partners.view_partner"):
        raise PermissionDenied
    return at_once(request, _page, key)


def _page(request: HttpRequest, key: int) -> HttpResponse:
    partner = Partner.objects.filter(pk=key).first()
    if partner is None:
        raise Http404(f"The partner {key} does not exist.")
    outbound = _link(request, OutboundLink, partner)
    inbound = _link(request, InboundLink, partner)
    advice = advice_on(outbound, request) if outbound else None
    context = {
        **admin.site.each_context(request),
        "title": f"Partner {markup.escape_invisible(str(partner))}",
        "opts": Partner._meta,  # noqa: SLF001  public
        "partner": partner,
        "headline": _headline(
            partner,
            outbound,
            advice.text if advice else "",
            stops_of(request, partner, outbound, inbound),
        ),
        "windows": windows_of(request, partner.pk),
        "cancelling": cancelling_notices(outbound) if outbound else (),
        "jumps": list(_jumps(request, partner, advice.jumps if advice else ())),
        "offers": _offers(request, outbound),
        "withheld": _withheld(request, outbound),
        "asked": asked_about(partner),
        "charts": curves.charts(curves.About(partners=(partner.pk,))),
        "tables": [
            _links(partner, outbound, inbound),
            *(table for tables in tables_of_partner for table in tables(request, partner)),
            _incidents(partner),
            _agreements(request, partner),
            _credentials(partner),
        ],
    }
    return TemplateResponse(request, "admin/msh/partner/page.html", context)


def _link(request: HttpRequest, model: type[Any], partner: Partner) -> Any:
    """With what its own page reads; None before the first message."""
    page: Any = admin.site.get_model_admin(model)
    found = page.has_view_permission(request)
    return page.get_queryset(request).filter(partner=partner).first() if found else None


def _headline(partner: Partner, link: Any, advice: str, stops: Sequence[SafeString]) -> Headline:
    """One state for both directions: that of the link to the partner, if nothing else stands
    still."""
    shared = shared_address(partner)
    suspended = bool(link) and link.state == LaneState.SUSPENDED
    badge = markup.badge(state_of(link), variant_of(link)) if link else markup.badge("new")
    if stops and not suspended:
        badge = markup.badge("action required", "danger")
    sentence = sentence_of(link) if link else "No message was exchanged yet."
    if stops:
        status = format_html("To the partner: {}", sentence) if link else ""
        first, last = (status, "") if suspended else ("", status)
        sentence = format_html_join(" ", "{}", [(one,) for one in (first, *stops, last) if one])
    return Headline(
        badge=badge,
        sentence=sentence,
        advice=advice,
        tone=ALARM if suspended or stops else "",
        facts=[
            ("Name", partner.name),
            ("Contact", markup.in_words(partner.contact)),
            ("Phone", markup.in_words(partner.phone)),
            ("Notes", markup.in_words(partner.notes)),
            ("Address", format_html("{} {}", markup.verbatim(partner.destination), shared)),
            ("URI", markup.verbatim(partner.uri)),
            ("Last Acknowledgement", markup.time_of(_last_ack(link)) if link else ""),
            ("Queue", link.queued if link else ""),
            ("Submissions", "" if partner.accepts else "refused by an operator"),
            ("Deliveries", "" if partner.delivers else "held by an operator"),
        ],
    )


def _last_ack(link: OutboundLink) -> Any:
    sent = OutboundMessage.objects.filter(link=link, sequence_number__isnull=False)
    done = sent.filter(state=OutboundState.ACKNOWLEDGED).order_by("-epoch", "-sequence_number")
    return done.values_list("completed_at", flat=True).first()


def _offers(request: HttpRequest, link: Any) -> list[Offer]:
    if link is None:
        return []
    page: Any = admin.site.get_model_admin(OutboundLink)
    wanted = (RESUME.action, PLAN.action, *page.advised(link))
    return [one for one in page.offers(request, link) if one.action.action in wanted]


def _withheld(request: HttpRequest, link: Any) -> Sequence[str]:
    if link is None:
        return ()
    page: Any = admin.site.get_model_admin(OutboundLink)
    withheld: Sequence[str] = page.withheld(request, link, (RESUME, PLAN))
    return withheld


def _jumps(request: HttpRequest, partner: Partner, advised: Sequence[Jump]) -> Iterator[Jump]:
    yield from advised
    url = settings_url(partner, request.path)
    leads_there = any(jump.url.startswith(url) for jump in advised)
    if request.user.has_perm("partners.change_partner") and not leads_there:
        yield Jump("Settings", "settings", url, recommended=False)
    history = f"{reverse('admin:msh_history_changelist')}?partner__id__exact={partner.pk}"
    for title, icon, model in (
        ("Outbound messages", "outbox", "outboundmessage"),
        ("Inbound messages", "inbox", "inboundmessage"),
    ):
        where = reverse(f"admin:msh_{model}_changelist")
        yield Jump(title, icon, f"{where}?link__partner={partner.pk}", recommended=False)
    yield Jump("History", "history", history, recommended=False)
    changes = reverse("admin:partners_partner_history", args=[partner.pk])
    yield Jump("Audit log of its settings", "manage_history", changes, recommended=False)


def _links(partner: Partner, outbound: Any, inbound: Any) -> Table:
    rows: list[tuple[object, ...]] = []
    if outbound:
        state = markup.badge(state_of(outbound), variant_of(outbound))
        rows.append((markup.link_to(outbound, "to the partner"), state, outbound.queued))
    if inbound:
        last = "nothing received yet" if inbound.last_number is None else inbound.last_message_id
        waiting = f"{inbound.waiting} not delivered"
        rows.append((markup.link_to(inbound, "from the partner"), markup.isolated(last), waiting))
    headers = ("Link", "State or last MessageId", "Waiting")
    return Table("Both directions", headers, rows, f"{partner} has no link yet.")


def _incidents(partner: Partner) -> Table:
    opened = Incident.objects.filter(partner=partner, resolved_at=None).order_by("-opened_at")
    rows = [
        (
            markup.link_to(one, CAUSES[one.kind].title),
            markup.time_and_age(one.opened_at),
            one.count,
            markup.local_times(one.detail),
            one.assigned_to or "nobody",
        )
        for one in opened[:ROWS]
    ]
    headers = ("Problem", "Since", "Occurrences", "Detail", "Assigned to")
    more = markup.list_url(Incident, partner__id__exact=partner.pk)
    return Table("Open incidents", headers, rows, "No open incident.", more)


def _agreements(request: HttpRequest, partner: Partner) -> Table:
    may_test = request.user.has_perms(TEST_PERMISSIONS)
    rows = [
        (
            markup.link_to(one, one.tpa_id),
            one.get_dialect_display(),
            markup.isolated(f"{one.our_party} → {one.their_party}"),
            format_seconds(one.terms().retry_horizon),
            _connection(one) if may_test else markup.DASH,
            _test_message(request, one),
        )
        for one in partner.agreements.order_by("tpa_id")
    ]
    headers = ("TPAId", "Dialect", "Parties", "Suspends after", "Connection", "Test message")
    return Table("Agreements", headers, rows, "No agreement: messages cannot be sent or received.")


def _connection(agreement: Agreement) -> str:
    url = reverse("admin:partners_agreement_connection", args=[agreement.pk])
    return format_html('<a href="{}" class="text-link">test connection</a>', url)


def _test_message(request: HttpRequest, agreement: Agreement) -> str:
    page: Any = admin.site.get_model_admin(Agreement)
    for offer in page.offers(request, agreement):
        shown = '<a href="{}" class="text-link" data-dialog>send test message</a>'
        return format_html(shown, offer.url)
    return markup.DASH


def _credentials(partner: Partner) -> Table:
    """Return the credentials; of secrets only kind and age."""
    rows: list[tuple[object, ...]] = [
        (one.get_kind_display(), markup.isolated(one.label), markup.time_and_age(one.created))
        for one in partner.credentials.all()
    ]
    if partner.outgoing_kind != OutgoingKind.NONE:
        rows.append((partner.get_outgoing_kind_display(), "ours, at the partner", markup.DASH))
    empty = "No credential: its requests are refused unless they come from its allowed networks."
    return Table("Credentials", ("Kind", "Label", "Created"), rows, empty)
