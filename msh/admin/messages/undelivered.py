"""Why a message of a partner is not delivered yet, and what somebody is to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.framework.headline import Jump
from msh.admin.framework.permitted import whom_to_ask
from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage, InboundState
from msh.protocol.flight import serial
from msh.protocol.kinds import DeliveryState

MOST = 1_000
"""Messages before another that are counted."""
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


def why_not_delivered(request: HttpRequest, message: InboundMessage) -> Standstill:
    """Return the text about a message that is accepted or held: what it waits for, behind what,
    since when and why."""
    if not message.link.partner.delivers:
        link = markup.link_to(message.link, "link from the partner")
        why = format_html("Messages of this partner are held by an operator: {}.", link)
        return Standstill(why, (), "")
    if message.state == InboundState.HELD:
        return Standstill(_missing(message), (), "")
    first = _first_of_its_order(message)
    delivery = first.deliveries.filter(replay_of=None).select_related("consumer").first()
    found = standstill(request, first, delivery)
    if found:
        about = format_html("waits. {}", found.why)
    else:
        about = _stage(delivery) if delivery else _not_begun(first)
    if first == message:
        said = format_html("It {}", about)
    else:
        before = _before(message)
        said = format_html("It waits behind {}. The first, {}, {}", before, _named(first), about)
    return Standstill(said, found.jumps if found else (), found.ask if found else "")


def _named(message: InboundMessage) -> SafeString:
    return markup.link_to(message, f"message {message}")


def _missing(message: InboundMessage) -> SafeString:
    order = message.ordered_in
    lacks = serial.FIRST if order is None or order.next_number is None else order.next_number
    where = markup.link_to(order) if order else markup.isolated(message.conversation_id)
    return format_html("It waits for number {} of its conversation {}.", lacks, where)


def _first_of_its_order(message: InboundMessage) -> InboundMessage:
    """The one that is delivered next: of the pair, or of its conversation."""
    of_link = InboundMessage.objects.filter(link=message.link_id).select_related("link__partner")
    of_link = of_link.defer("header")
    if message.ordered_in_id is None:
        return of_link.undelivered().order_by("pk").first() or message
    order = of_link.filter(ordered_in=message.ordered_in_id, state=InboundState.ACCEPTED)
    return order.order_by(Coalesce("turn", "pk")).first() or message


def _before(message: InboundMessage) -> str:
    of_link = InboundMessage.objects.filter(link=message.link_id, pk__lt=message.pk)
    if message.ordered_in_id is None:
        found, whose = of_link.undelivered(), "this partner"
    else:
        found = of_link.undelivered_in_order().filter(ordered_in=message.ordered_in_id)
        whose = "its conversation"
    count = found[: MOST + 1].count()
    shown = f"more than {MOST}" if count > MOST else str(count)
    return f"{shown} message{'' if count == 1 else 's'} of {whose}"


def _stage(delivery: Delivery) -> SafeString:
    """What became of a delivery so far, as the end of a sentence."""
    to = markup.link_to(delivery.consumer, f"consumer {delivery.consumer}")
    page = markup.link_to(delivery, "its delivery")
    error = markup.verbatim(delivery.detail)
    match DeliveryState(delivery.state):
        case DeliveryState.PROCESSING:
            at = markup.ago(delivery.started_at)
            return format_html("was handed to {} {} ({}).", to, at, page)
        case DeliveryState.FAILED:
            due = markup.time_of(delivery.due)
            text = "could not be delivered to {} ({}): {}. It is tried again at {}."
            return format_html(text, to, page, error, due)
        case DeliveryState.BLOCKED:
            since = markup.ago(delivery.ended_at or delivery.started_at)
            text = "could not be delivered to {}: {}. An operator has to decide on {}, since {}."
            return format_html(text, to, error, page, since)
        case DeliveryState.IN_DOUBT:
            text = "may have reached {} or not. An operator has to decide on {}."
            return format_html(text, to, page)
    return format_html("is with {}: {}.", to, page)


def _not_begun(message: InboundMessage) -> SafeString:
    consumer = _consumer_of(message)
    if consumer is None:  # one may have been deleted meanwhile
        return SafeString("waits for a consumer.")
    name = markup.link_to(consumer, f"consumer {consumer}")
    if consumer.kind == ConsumerKind.PULL:
        last = markup.ago(consumer.fetched_at) if consumer.fetched_at else "never"
        text = "is for {}, whose application fetches its messages itself. It last fetched: {}."
        return format_html(text, name, last)
    return format_html("is delivered to {} next.", name)


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
