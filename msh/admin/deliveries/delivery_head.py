"""The head of the page of a delivery: who has what, and what an operator does about it."""

from django.db.models import QuerySet
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.framework.headline import ALARM, Headline
from msh.flows.operations.inspection.ways import Standing, filled, words_of
from msh.models import Delivery, Direction, History, InboundMessage, InboundState
from msh.models.delivery import OPEN_TO_OPERATORS
from msh.models.inbound import InboundMessageQuerySet
from msh.protocol.kinds import DeliveryState
from msh.store.history import ITSELF

MOST = 1_000
"""Messages behind a delivery that are counted."""

_SENTENCES = {
    DeliveryState.PROCESSING: "The message was handed to {consumer}, which has not finished.",
    DeliveryState.COMPLETED: "{Consumer} has taken the message.",
    DeliveryState.REJECTED: "{Consumer} has rejected the message. Messages behind it go on.",
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
        "Fix what the last error names, then {run_again}. If the application has the message"
        " already, {mark_completed}. To deliver the others without it, {park}."
    ),
    DeliveryState.PARKED: (
        "Fix what the last error names, then {run_again}: it is delivered out of order. If the"
        " application has the message already, {mark_completed}."
    ),
    DeliveryState.REJECTED: (
        "Ask its application why, if the last error does not say it. If the cause is removed,"
        " {run_again}: it is delivered out of order. Otherwise it is not delivered again."
    ),
    DeliveryState.IN_DOUBT: (
        "Search the application for MessageId {message_id}. If it has the message,"
        " {mark_completed}. If it does not, {run_again}."
    ),
}
_DECIDED = {
    DeliveryState.COMPLETED: (
        "Marked completed by {actor}. {Consumer} has not reported that it has the message."
    ),
    DeliveryState.REJECTED: "Marked rejected by {actor}. Messages behind it go on.",
}
"""An operator said so, and not the application."""
_DUE = {
    DeliveryState.PROCESSING: "Lease ends",
    DeliveryState.FAILED: "Next attempt",
}
"""What happens when it is due."""
_AGAIN = "Run again was requested: {consumer} gets the message now."
_ASK = " Or {ask_resolver}: {consumer} finds out itself."


def _replays(delivery: Delivery) -> list[tuple[str, object]]:
    """The delivery that it replays, or its replays."""
    if first := delivery.replay_of:
        return [("Replay of", markup.link_to(first, f"delivery {first.pk}"))]
    found = delivery.replays.all()[:10]
    links = [(markup.link_to(one, f"delivery {one.pk}"), one.get_state_display()) for one in found]
    return [("Replays", format_html_join(", ", "{} ({})", links))] if links else []


def headline_of(delivery: Delivery) -> Headline:
    state = DeliveryState(delivery.state)
    sentence = _SENTENCES[state]
    decision = _decision(delivery)
    if decision:
        sentence = _DECIDED[state]
    elif delivery.replay_of_id and not delivery.attempt:
        sentence = "The message is delivered to {consumer} again, in its turn."
    elif state == DeliveryState.FAILED and not delivery.failures and _runs_again(delivery):
        sentence = _AGAIN
    message = delivery.message
    values = {
        "consumer": _consumer(delivery, "consumer"),
        "Consumer": _consumer(delivery, "Consumer"),
        "attempt": delivery.attempt,
        "message_id": markup.isolated(message.message_id),
        "actor": markup.in_words(decision.actor if decision else ""),
    }
    behind = _behind(delivery)
    return Headline(
        badge=markup.state_badge(delivery),
        sentence=format_html("{} {}", format_html(sentence, **values), behind),
        advice=format_html(words_of(advice_on(delivery)), **values),
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
            (_DUE.get(state, ""), markup.time_of(delivery.due) if state in _DUE else ""),
            ("Behind it", _since(delivery.message, decision) if decision else ""),
            ("Last error", markup.verbatim(delivery.detail)),
        ],
        live=state in (DeliveryState.PROCESSING, DeliveryState.FAILED),
    )


def advice_on(delivery: Delivery) -> str:
    """With marks of the actions that it names, and the names of values; empty if none is needed."""
    state = DeliveryState(delivery.state)
    asks = state == DeliveryState.IN_DOUBT and delivery.consumer.resolver
    return filled(_ADVICE.get(state, "") + (_ASK if asks else ""), Standing.OVER)


def _events(delivery: Delivery) -> QuerySet[History]:
    """Since its last attempt began."""
    message = delivery.message
    events = History.objects.of_message(message.message_id).filter(
        partner=message.link.partner_id, direction=Direction.IN
    )
    return events.filter(at__gte=delivery.started_at).order_by("pk")


def _decision(delivery: Delivery) -> History | None:
    """Return the operator's action that ended it; None if its application did."""
    if delivery.state not in _DECIDED:
        return None
    name = "Replay" if delivery.replay_of_id else "Message"
    ended = _events(delivery).filter(
        event__in=[f"{name}{what}" for what in ("Delivered", "Completed", "Rejected")]
    )
    event = ended.first()
    return None if event is None or event.actor == ITSELF.name else event


def _runs_again(delivery: Delivery) -> bool:
    return _events(delivery).filter(event="RunAgainRequested").exists()


def _since(message: InboundMessage, decision: History) -> str:
    """Return what happened to the messages that waited for the decision; for a replay none wait."""
    if decision.event.startswith("Replay"):
        return ""
    behind = _behind_it(message).filter(
        ordered_in=message.ordered_in_id, received_at__lte=decision.at
    )
    done = behind.filter(delivered_at__gte=decision.at)[: MOST + 1].count()
    left = _waiting(message).filter(received_at__lte=decision.at)[: MOST + 1].count()
    if not (done or left):
        return ""
    return f"{_at_most(done)} delivered since, {_at_most(left)} not delivered yet"


def _at_most(count: int) -> str:
    return str(count) if count <= MOST else f"more than {MOST}"


def _consumer(delivery: Delivery, word: str) -> SafeString:
    """`word`: with a capital at the beginning of a sentence."""
    name = markup.escape_invisible(str(delivery.consumer))
    return format_html("{} <bdi>{}</bdi>", word, name)


def _behind(delivery: Delivery) -> str:
    """The messages that wait for this decision."""
    holds = delivery.state in OPEN_TO_OPERATORS and delivery.message.state == InboundState.ACCEPTED
    if not holds:
        return ""
    count = _waiting(delivery.message)[: MOST + 1].count()
    if count > MOST:
        return f"More than {MOST} messages wait behind it."
    return f"{count} message{'s wait' if count != 1 else ' waits'} behind it." if count else ""


def _behind_it(message: InboundMessage) -> InboundMessageQuerySet:
    return InboundMessage.objects.filter(link=message.link_id, pk__gt=message.pk)


def _waiting(message: InboundMessage) -> QuerySet[InboundMessage]:
    others = _behind_it(message)
    if message.ordered_in_id is None:
        return others.undelivered()
    return others.undelivered_in_order().filter(ordered_in=message.ordered_in_id)
