"""The pages that `make bench-console` measures."""

from dataclasses import dataclass, field
from datetime import timedelta

from django.urls import reverse

from msh.models import (
    Delivery,
    InboundConversation,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
)

from .console_rows import BEHIND


@dataclass(frozen=True, slots=True)
class Address:
    """`form`: it is posted, and the time is that of the first byte."""

    url: str
    form: dict[str, str] = field(default_factory=dict)


def pages() -> dict[str, Address]:
    """By name."""
    return {name: Address(url) for name, url in {**_first(), **_messages(), **_rest()}.items()} | (
        _exports()
    )


def _list(name: str, query: str = "") -> str:
    return reverse(f"admin:msh_{name}_changelist") + query


def _page(name: str, key: int) -> str:
    return reverse(f"admin:msh_{name}_change", args=[key])


def _suspended() -> OutboundLink:
    return OutboundLink.objects.suspended().latest("pk")


def _first() -> dict[str, str]:
    behind = OutboundLink.objects.order_by("pk")[BEHIND]
    suspended = _suspended()
    received = InboundMessage.objects.earliest("pk")
    standing = InboundMessage.objects.filter(state="accepted").earliest("pk")
    in_order = InboundConversation.objects.earliest("pk")
    return {
        "dashboard": reverse("admin:index"),
        "wall": reverse("wall"),
        "link list": _list("outboundlink"),
        "link list, suspended": _list("outboundlink", "?state__exact=suspended"),
        "link page, suspended": _page("outboundlink", suspended.pk),
        "link page, backlog": _page("outboundlink", behind.pk),
        "links from partners": _list("inboundlink"),
        "link page, inbound": _page("inboundlink", received.link_id),
        "link page, inbound, blocked": _page("inboundlink", standing.link_id),
        "conversation page, inbound": _page("inboundconversation", in_order.pk),
        "partner page": reverse("partner_page", args=[suspended.partner_id]),
        "partner list": reverse("admin:partners_partner_changelist"),
    }


def _messages() -> dict[str, str]:
    sent = OutboundMessage.objects.filter(state="acknowledged").first()
    suspended = _suspended()
    flying = suspended.in_flight
    received = InboundMessage.objects.earliest("pk")
    assert flying is not None
    out, back = _list("outboundmessage"), _list("inboundmessage")
    return {
        "messages": out,
        "messages, inbound": back,
        "message search, MessageId": f"{out}?q={(sent or flying).message_id}",
        "message search, ConversationId": f"{back}?q={received.conversation_id}",
        "message search, business key": f"{back}?q=order-{received.pk}",
        "message search, state": f"{out}?state__exact=queued",
        "message search, partner": f"{out}?link__partner__id__exact={suspended.partner_id}",
        "message search, SequenceNumber": f"{out}?number={flying.sequence_number}",
        "message search, since": f"{out}?since={flying.submitted_at:%Y-%m-%dT%H:%M:%S}",
        "message search, no match": f"{back}?q=nobody-knows-it",
        "message page": _page("outboundmessage", flying.pk),
        "message page, inbound": _page("inboundmessage", received.pk),
    }


def _rest() -> dict[str, str]:
    waiting = Delivery.objects.waiting_for_operator().latest("pk")
    received = InboundMessage.objects.earliest("pk")
    suspended = _suspended()
    return {
        "search, MessageId": reverse("search") + "?q=in-5",
        "search, business key": reverse("search") + f"?q=order-{received.pk}",
        "search, no match": reverse("search") + "?q=nobody-knows-it",
        "incidents": _list("incident"),
        "incident": _page("incident", Incident.objects.filter(resolved_at=None).latest("pk").pk),
        "statistics, 24 h": reverse("statistics") + "?period=24h",
        "statistics, 7 days": reverse("statistics") + "?period=7d",
        "statistics, 90 days": reverse("statistics") + "?period=90d",
        "statistics, partner": reverse("statistics")
        + f"?period=30d&partner={suspended.partner_id}",
        "consumer": _page("consumer", waiting.consumer_id),
        "deliveries": _list("delivery"),
        "deliveries, in doubt": _list("delivery", "?state__exact=in_doubt"),
        "delivery": _page("delivery", waiting.pk),
        "history": _list("history"),
        "history, by persons": _list("history", "?by=person"),
    }


def _exports() -> dict[str, Address]:
    suspended = _suspended()
    latest = OutboundMessage.objects.filter(state="acknowledged").latest("pk")
    since = latest.submitted_at - timedelta(days=3)
    of_partner = f"?link__partner__id__exact={suspended.partner_id}"
    rows, csv = reverse("admin:msh_outboundmessage_rows"), {"format": "csv"}
    return {
        "export, a partner": Address(rows + of_partner, csv),
        "export, three days": Address(f"{rows}?since={since:%Y-%m-%dT%H:%M:%S}", csv),
        "export, links": Address(reverse("admin:msh_inboundlink_rows"), {"format": "json"}),
    }
