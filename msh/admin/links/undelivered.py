"""Why the first undelivered message of a partner waits for somebody, and what that is to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.framework.permitted import whom_to_ask
from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage

from .advice import Jump

SILENT = timedelta(minutes=5)
"""After so long without a request, the application of a pull consumer is said not to fetch."""
_CHANGE, _ADD = ("msh.change_consumer",), ("msh.add_consumer",)


@dataclass(frozen=True, slots=True)
class Standstill:
    """`why` nothing is delivered; `ask`: whom, if this user may not do what helps."""

    why: SafeString
    jumps: Sequence[Jump]
    ask: str


def standstill(
    request: HttpRequest, message: InboundMessage | None, delivery: Delivery | None
) -> Standstill | None:
    """Return the text about the first undelivered message and its delivery. None if it waits for
    nobody, or for a decision on the delivery."""
    if message is None:
        return None
    consumer = delivery.consumer if delivery else _consumer_of(message)
    if consumer is None:
        return _without_consumer(request, message)
    if consumer.enabled:
        return None if delivery else _not_fetched(message, consumer)
    why = format_html(
        "Nothing is delivered: consumer {} is switched off.", markup.link_to(consumer)
    )
    jumps = [Jump("Consumer settings", "toggle_on", markup.page_url(consumer), True)]
    ask = whom_to_ask(request, _CHANGE, f"switch consumer {consumer} on")
    return Standstill(why, [] if ask else jumps, ask)


def _not_fetched(message: InboundMessage, consumer: Consumer) -> Standstill | None:
    """Return the text for a pull consumer that does not ask for the message."""
    fetched = consumer.fetched_at
    if consumer.kind != ConsumerKind.PULL:
        return None
    if timezone.now() - max(message.received_at, fetched or message.received_at) < SILENT:
        return None
    last = "has never fetched messages"
    if fetched:
        last = format_html("last fetched messages {}", markup.ago(fetched))
    why = format_html(
        "Nothing is delivered: the application of consumer {} {}. Ask those who run it whether it"
        " is running.",
        markup.link_to(consumer),
        last,
    )
    return Standstill(why, (), "")


def _without_consumer(request: HttpRequest, message: InboundMessage) -> Standstill:
    why = format_html(
        "Nothing is delivered: no consumer takes {} from this partner.",
        markup.service_and_action(message),
    )
    where = new_consumer_url(message.link.partner_id, message.service_interface, message.action)
    ask = whom_to_ask(request, _ADD, "add a consumer")
    return Standstill(why, [] if ask else [Jump("Add consumer", "add", where, True)], ask)


def _consumer_of(message: InboundMessage) -> Consumer | None:
    """Which takes it: the one that says most (`Consumer`)."""
    fits = Consumer.objects.filter(
        Q(partner=message.link.partner_id) | Q(partner=None),
        service_interface__in=(message.service_interface, ""),
        action__in=(message.action, ""),
    ).select_related("partner")
    return max(fits, key=_says, default=None)


def _says(consumer: Any) -> tuple[bool, bool, bool]:
    return (
        consumer.partner_id is not None,
        consumer.service_interface != "",
        consumer.action != "",
    )


def new_consumer_url(partner_id: int, service_interface: str, action: str) -> str:
    """The form, filled in."""
    values: dict[str, int | str] = {
        "partner": partner_id,
        "service_interface": service_interface,
        "action": action,
    }
    return f"{reverse('admin:msh_consumer_add')}?{urlencode(values)}"
