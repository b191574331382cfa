"""The head of the page of a delivery: who has what, and what an operator does about it."""

from django.db.models import QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.framework.headline import ALARM, Headline
from msh.models import Delivery, InboundMessage, InboundState
from msh.models.delivery import OPEN_TO_OPERATORS
from msh.protocol.kinds import DeliveryState

MOST = 1_000
"""Messages behind a delivery that are counted."""

_SENTENCES = {
    DeliveryState.PROCESSING: "The message was handed to {consumer}, which has not finished.",
    DeliveryState.COMPLETED: "{consumer} has taken the message.",
    DeliveryState.REJECTED: "{consumer} has rejected the message. It is not delivered again.",
    DeliveryState.FAILED: "The last attempt to deliver it to {consumer} failed. It is tried again.",
    DeliveryState.BLOCKED: "Every attempt to deliver it to {consumer} has failed.",
    DeliveryState.PARKED: (
        "Every attempt to deliver it to {consumer} has failed. Messages behind it are delivered"
        " without it."
    ),
    DeliveryState.IN_DOUBT: (
        "Unknown whether {consumer} has the message: the lease of attempt {attempt} ended"
        " without a result."
    ),
}
_ADVICE = {
    DeliveryState.FAILED: (
        "None while attempts remain. If it keeps failing, fix what the last error names."
    ),
    DeliveryState.BLOCKED: (
        "Fix what the last error names, then choose Run again. If the application has the"
        " message already, choose Mark completed. To deliver the others without it, choose Park."
    ),
    DeliveryState.PARKED: (
        "Fix what the last error names, then choose Run again: it is delivered out of order. If"
        " the application has the message already, choose Mark completed."
    ),
    DeliveryState.IN_DOUBT: (
        "Search the application for MessageId {message_id}. If it has the message, choose Mark"
        " completed. If it does not, choose Run again.{resolver}"
    ),
}
_ASK = " With Ask resolver, {consumer} finds out itself."


def _replays(delivery: Delivery) -> list[tuple[str, object]]:
    """What it replays, or its replays."""
    if first := delivery.replay_of:
        return [("Replay of", markup.link_to(first, f"delivery {first.pk}"))]
    found = delivery.replays.all()[:10]
    links = [(markup.link_to(one, f"delivery {one.pk}"), one.get_state_display()) for one in found]
    return [("Replays", format_html_join(", ", "{} ({})", links))] if links else []


def headline_of(delivery: Delivery) -> Headline:
    state = DeliveryState(delivery.state)
    sentence = _SENTENCES[state]
    if delivery.replay_of_id and not delivery.attempt:
        sentence = "The message is delivered to {consumer} again, in its turn."
    message = delivery.message
    resolver = format_html(_ASK, consumer=_consumer(delivery)) if delivery.consumer.resolver else ""
    values = {
        "consumer": _consumer(delivery),
        "attempt": delivery.attempt,
        "message_id": markup.isolated(message.message_id),
        "resolver": resolver,
    }
    behind = _behind(delivery)
    return Headline(
        badge=markup.state_badge(delivery),
        sentence=format_html("{} {}", format_html(sentence, **values), behind),
        advice=format_html(_ADVICE[state], **values) if state in _ADVICE else "",
        tone=ALARM if state in OPEN_TO_OPERATORS else "",
        facts=[
            ("Partner", markup.link_to(message.link, message.link.partner)),
            ("Message", markup.link_to(message)),
            *_replays(delivery),
            ("Number", markup.number_of(message)),
            ("ServiceInterface / Action", markup.service_and_action(message)),
            ("Consumer", markup.in_words(str(delivery.consumer))),
            ("External id", markup.isolated(delivery.external_id)),
            ("Attempt", delivery.attempt),
            ("Failures in a row", delivery.failures or ""),
            ("Started", markup.time_of(delivery.started_at)),
            ("Ended", markup.time_of(delivery.ended_at)),
            ("Next attempt", markup.time_of(delivery.due)),
            ("Last error", markup.verbatim(delivery.detail)),
        ],
    )


def _consumer(delivery: Delivery) -> SafeString:
    return format_html("consumer <bdi>{}</bdi>", markup.escape_invisible(str(delivery.consumer)))


def _behind(delivery: Delivery) -> str:
    """The messages that wait for this decision."""
    holds = delivery.state in OPEN_TO_OPERATORS and delivery.message.state == InboundState.ACCEPTED
    if not holds:
        return ""
    count = _waiting(delivery.message)[: MOST + 1].count()
    if count > MOST:
        return f"More than {MOST} messages wait behind it."
    return f"{count} message{'s wait' if count != 1 else ' waits'} behind it." if count else ""


def _waiting(message: InboundMessage) -> QuerySet[InboundMessage]:
    others = InboundMessage.objects.filter(link=message.link_id, pk__gt=message.pk)
    if message.ordered_in_id is None:
        return others.undelivered()
    return others.undelivered_in_order().filter(ordered_in=message.ordered_in_id)
