"""The link to a partner whose messages fly: its window and its gate, and what is under way."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html

from msh.admin.framework import markup
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_duration, format_seconds, format_time
from msh.admin.messages.flight_actions import progress_of
from msh.flows.operations.inspection.causes import CAUSES, RETRIED
from msh.flows.operations.inspection.flights import flight_of, with_flights
from msh.flows.operations.inspection.situation import why_they_failed
from msh.flows.operations.inspection.why_not_sent import OVERDUE
from msh.models import FLIGHTS_IN, HELD, Attempt, OutboundLink, OutboundMessage, OutboundState
from msh.protocol.flight.gate import BREAKER
from msh.protocol.lane import LaneState
from msh.protocol.reason import Reason
from partners.models import Agreement

from .conversation import is_ordered
from .lane_view import FIRST_ROWS, Row, agreements_of, messages_url, queue_table
from .outbound_conversation import stopped_conversations


def window_of(link: OutboundLink) -> int:
    """Return the smallest window of its agreements (EB-085)."""
    return min((one.window for one in link.partner.agreements.all()), default=0)


def state(link: Any, now: datetime) -> str:
    if link.state != LaneState.IDLE:
        return str(link.get_state_display())
    if link.under_way:
        return "sending" if link.not_carried else "waiting for Acknowledgements"
    return "held for an operator" if link.held else "idle"


def sentence(link: Any, now: datetime) -> str:
    window = window_of(link)
    places = f"{link.under_way} of at most {window} messages are under way"
    held = f", {link.held} held for an operator" if link.held else ""
    held += _failures(link)
    if link.state == LaneState.SUSPENDED:
        return f"{_next_probe(link, now)}. {places}{held}; the messages keep their retries."
    oldest: datetime = getattr(link, "oldest", None) or now
    # In order, a message may wait for another one of its conversation.
    if now - oldest > OVERDUE and link.under_way < window and not is_ordered(link.partner):
        return (
            f"{places}{held}. Nothing polls this link: the first message of its queue has waited"
            f" for {format_duration(oldest, now)}. Check that a worker is running (dashboard)."
        )
    if link.under_way >= window and getattr(link, "queued", 0):
        return f"{places}{held}: those of the queue wait until one of them is acknowledged."
    return f"{places}{held}."


def _failures(link: Any) -> str:
    """How many have failed, and since when."""
    count = getattr(link, "failed", 0)
    if not count:
        return ""
    have = "message has" if count == 1 else "messages have"
    since = format_time(link.failed_since, timezone.now()) if link.failed_since else ""
    return f"; {count} {have} failed{f' since {since}' if since else ''}"


def _next_probe(link: Any, now: datetime) -> str:
    if not link.probe_due:
        return "No probe is due"
    if link.in_maintenance:
        return "No probe is sent while the maintenance window runs"
    return f"The next probe is due at {format_time(link.probe_due, now)}"


def in_flight(link: Any) -> str:
    """The numbers, each with the list of its messages."""
    shown = [
        format_html('<a href="{}" class="text-link">{}</a>', messages_url(link, state), text)
        for state, text in (
            (OutboundState.IN_FLIGHT, f"{link.under_way} under way"),
            (HELD, f"{link.held} held" if link.held else ""),
        )
        if text
    ]
    return format_html("<div>{}</div>" * len(shown), *shown)


def context(link: Any) -> dict[str, object]:
    return {
        "window": f"{link.under_way} of {window_of(link)} places in use",
        "under_way": in_flight(link),
        "failures": f"{link.failures} in a row; after {BREAKER} the partner is suspended",
        "probe": _probe_of(link),
        "last_error": _last_answer(link),
    }


def _probe_of(link: Any) -> str:
    if link.probe_due and link.in_maintenance:
        return "none while the maintenance window runs"
    if link.probe_due:
        return markup.time_of(link.probe_due)
    if link.partner.never_probe:
        return "none: only an operator can resume"
    probe = link.partner.probe_interval
    every = (
        f"every {format_seconds(probe)}" if probe else "each RetryInterval, at least 60 s apart,"
    )
    return f"none is due; {every} while the partner cannot be reached"


def _last_answer(link: OutboundLink) -> str:
    last = _answers(link).first()
    if last is None:
        return markup.DASH
    return markup.last_answer(markup.ending_of(last))


def _answers(link: OutboundLink) -> Any:
    """To messages that are under way, the latest first."""
    made = Attempt.objects.filter(message__flight__link=link, message__flight__under_way=True)
    return made.filter(ended_at__isnull=False).order_by("-ended_at")


def tables(link: OutboundLink, *, connection: object) -> Sequence[Table]:
    return [
        *stopped_conversations(link),
        *_failed(link),
        _under_way(link),
        _held(link),
        queue_table(link, _first_of_queue(link)),
        _agreements(link, connection),
    ]


def _messages(link: OutboundLink) -> Any:
    messages = OutboundMessage.objects.select_related("agreement", "flight").defer("head")
    return messages.filter(flight__link=link)


def _under_way(link: OutboundLink) -> Table:
    messages = _messages(link).filter(flight__under_way=True).order_by("flight__due")
    rows = [(*_named(one), *_copies(one)) for one in with_flights(messages[:FIRST_ROWS])]
    headers = ("MessageId", "ServiceInterface / Action", "Attempts", "Next step", "Submitted")
    more = messages_url(link, OutboundState.IN_FLIGHT)
    return Table("Under way, next step first", headers, rows, "No message is under way.", more)


def _copies(message: Any) -> Row:
    flight = flight_of(message)
    step = markup.time_of(message.flight.due)
    return progress_of(flight) if flight else "", step, markup.time_of(message.submitted_at)


def _held(link: OutboundLink) -> Table:
    messages = _messages(link).filter(flight__state=HELD).order_by("pk")
    rows = [(*_named(one), *_why_held(one)) for one in with_flights(messages[:FIRST_ROWS])]
    headers = ("MessageId", "ServiceInterface / Action", "Cause", "Attempts", "Submitted")
    return Table(
        "Held for an operator", headers, rows, "No message is held.", messages_url(link, HELD)
    )


def _failed(link: OutboundLink) -> list[Table]:
    """Return the failed messages without a submitted copy, the last that failed first; empty if
    there are none."""
    failed = list(failed_on(link).order_by("-pk")[:FIRST_ROWS])
    why = why_they_failed(failed)
    rows = [
        (*_named(one), why.get(one.pk, ""), markup.time_and_age(one.completed_at)) for one in failed
    ]
    if not rows:
        return []
    headers = ("MessageId", "ServiceInterface / Action", "Why", "Failed")
    more = messages_url(link, OutboundState.FAILED)
    return [Table("Failed, and not submitted again", headers, rows, "None.", more)]


def failed_on(link: OutboundLink) -> Any:
    """Messages that failed, and of which no copy was submitted."""
    failed = OutboundMessage.objects.failed_for_good().filter(link=link)
    return failed.select_related("link").defer("head")


def _why_held(message: Any) -> Row:
    cause = CAUSES.get(message.flight.held_for)
    flight = flight_of(message)
    return (
        cause.title if cause else message.flight.held_for,
        progress_of(flight) if flight else "",
        markup.time_of(message.submitted_at),
    )


def _named(message: OutboundMessage) -> Row:
    return markup.link_to(message), markup.service_and_action(message)


def _first_of_queue(link: OutboundLink) -> Iterable[OutboundMessage]:
    """Messages that fly, then those of one attempt, which wait for no place."""
    queue = OutboundMessage.objects.head_of_queue(link.pk, FIRST_ROWS).defer("head")
    ready = FLIGHTS_IN[OutboundState.QUEUED]
    flights = link.flights.filter(ready).order_by("message_id").values("message")
    flying = _messages(link).filter(pk__in=flights[:FIRST_ROWS]).order_by("pk")
    return [*flying, *queue][:FIRST_ROWS]


def _agreements(link: OutboundLink, connection: Any) -> Table:
    headers = (
        *("TPAId", "Connection", "Semantics", "Retries", "RetryInterval", "TimeToLive", "Window"),
        "When retries are spent",
    )
    rows = []
    for one in agreements_of(link):
        named, *terms = _terms(one)
        rows.append((named, connection(one), *terms))
    return Table("Agreements", headers, rows, "No agreements.")


def _terms(agreement: Agreement) -> Row:
    return (
        markup.link_to(agreement, agreement.tpa_id),
        agreement.semantics,
        agreement.retries,
        format_seconds(agreement.retry_interval),
        format_seconds(agreement.time_to_live) if agreement.time_to_live else "none",
        agreement.window,
        "message is held" if agreement.on_failure == "hold" else "message has failed",
    )


def suspended(link: OutboundLink) -> str:
    return (
        "Messages that are under way are not sent again, and keep their retries; an"
        " Acknowledgement that arrives completes its message."
    )


def resumed(link: OutboundLink) -> str:
    return (
        f"Messages to {link.partner} are sent again, at most {window_of(link)} at once: first those"
        " that are under way, when their next copy is due, with the same bytes, MessageIds and"
        " retries left. If the partner has already stored one, it discards the duplicate and"
        " acknowledges it again. Held messages stay held. The incidents of this link are resolved"
        " with your reason. The partner must be reachable."
    )


def retried(link: OutboundLink) -> Reason | None:
    """Return the retried messages under way. Answers to messages that are not sent again say
    nothing about these."""
    last = _answers(link).filter(RETRIED).first()
    return None if last is None else Reason(last.reason)
