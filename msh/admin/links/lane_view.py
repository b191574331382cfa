"""The link to a partner whose messages have numbers: one in flight, the others behind it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.html import format_html

from msh.admin.framework import markup
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_seconds
from msh.flows.operations.inspection.causes import is_retrying
from msh.models import Attempt, OutboundLink, OutboundMessage, OutboundState
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import LaneState
from msh.protocol.reason import Reason
from partners.models import Agreement

from .cancelling import is_cancelling
from .counters import counters
from .status_text import state_words, status_text

FIRST_ROWS = 10
Row = tuple[object, ...]


def sentence(link: Any, now: datetime) -> str:
    may_be_safe = link.lane.state is LaneState.SUSPENDED and link.lane.in_flight is None
    is_safe = may_be_safe and not is_cancelling(link)
    oldest = getattr(link, "oldest", None)
    return status_text(link.lane, now, oldest, _ended(link), is_safe=is_safe)


def state(link: Any, now: datetime) -> str:
    return state_words(link.lane, now, _ended(link))


def is_failing(link: Any) -> bool:
    """Whether the last copy of a message that waits was not transmitted."""
    return _ended(link) not in ("", AttemptOutcome.TRANSMITTED)


def _ended(link: Any) -> str:
    """How the last attempt of a message that waits ended; empty while it is in progress."""
    if link.state != LaneState.WAITING or link.unsent:
        return ""
    last = last_answer_of(link)
    return str(last["outcome"]) if last and last["number"] == link.lane.flying.attempt else ""


def in_flight(link: Any) -> str:
    message = link.in_flight
    if message is None:
        return markup.DASH
    flying = link.lane.flying
    return format_html(
        '<div><span title="{}">{}</span><div class="msh-note" title="{}">{}</div></div>',
        message,
        markup.link_to(message, f"number {message.sequence_number}"),
        tries(link),
        f"{flying.attempt} attempt{'' if flying.attempt == 1 else 's'}",
    )


def tries(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return markup.DASH
    spent, retries = flying.retries_spent, flying.terms.retries
    so_far = f"{flying.attempt} attempt{'' if flying.attempt == 1 else 's'}"
    return f"{so_far}, {spent} of {retries} retries used"


def context(link: OutboundLink) -> dict[str, object]:
    return {
        "message": link.in_flight,
        "kind": markup.service_and_action(link.in_flight) if link.in_flight else "",
        "tries": tries(link),
        "counters": counters(link.partner_id),
        "acknowledged": _last_acknowledged(link),
    }


def _last_acknowledged(link: OutboundLink) -> str:
    """The message and when, so that a link which waits for the next one does not seem to stand."""
    sent = OutboundMessage.objects.filter(link=link, sequence_number__isnull=False)
    done = sent.filter(state=OutboundState.ACKNOWLEDGED).order_by("-epoch", "-sequence_number")
    last = done.only("sequence_number", "completed_at", "message_id").first()
    if last is None or last.completed_at is None:
        return markup.DASH
    number = markup.link_to(last, f"number {last.sequence_number}")
    return format_html("{}, {}", number, markup.ago(last.completed_at))


def tables(link: OutboundLink, *, connection: object) -> Sequence[Table]:
    return [_attempts(link), _first_of_queue(link), _agreements(link, connection)]


def _attempts(link: OutboundLink) -> Table:
    attempts = Attempt.objects.filter(message=link.in_flight_id).order_by("-number")
    return Table(
        "Attempts of the message in flight, newest first",
        markup.ATTEMPT_HEADERS,
        [markup.attempt_cells(attempt) for attempt in attempts[:FIRST_ROWS]],
        "Not sent yet." if link.in_flight_id else "No message in flight.",
        markup.page_url(link.in_flight) if link.in_flight else "",
    )


def _first_of_queue(link: OutboundLink) -> Table:
    queue = OutboundMessage.objects.head_of_queue(link.pk, FIRST_ROWS)
    return queue_table(link, queue.defer("head"))


def queue_table(link: OutboundLink, first: Any) -> Table:
    rows = [
        (
            markup.link_to(message),
            message.semantics,
            markup.service_and_action(message),
            markup.time_of(message.submitted_at),
            markup.age_of(message.submitted_at),
        )
        for message in first
    ]
    headers = ("MessageId", "Semantics", "ServiceInterface / Action", "Submitted", "Age")
    more = messages_url(link, "queued")
    return Table("Queue, in sending order", headers, rows, "The queue is empty.", more)


def messages_url(link: OutboundLink, state: str) -> str:
    partner = {"link__partner__id__exact": link.partner_id}
    return markup.list_url(OutboundMessage, **partner, state__exact=state)


def _agreements(link: OutboundLink, connection: Any) -> Table:
    """The terms of future messages, by agreement."""
    headers = ("TPAId", "Semantics", "Timeout", "Retries", "RetryInterval", "Suspends after")
    rows = [(*_terms(one), connection(one)) for one in agreements_of(link)]
    return Table("Agreements", (*headers, "Connection"), rows, "No agreements.")


def _terms(agreement: Agreement) -> Row:
    return (
        markup.link_to(agreement, agreement.tpa_id),
        agreement.semantics,
        format_seconds(agreement.timeout),
        agreement.retries,
        format_seconds(agreement.retry_interval),
        format_seconds(agreement.terms().retry_horizon),
    )


def agreements_of(link: OutboundLink) -> list[Agreement]:
    return sorted(link.partner.agreements.all(), key=lambda agreement: agreement.tpa_id)


def suspended(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return "No message is in flight."
    return (
        f"Message {flying.sequence_number} stays in flight and is not sent again; a late"
        " Acknowledgement is accepted."
    )


def resumed(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        late = "The message in flight was acknowledged late and is complete. "
        return (late if link.late_ack else "") + (
            f"No message is in flight to {link.partner}, so none can be duplicated. The queue is"
            f" sent in order, starting with number {link.next_number}. The partner does not have"
            " to do anything."
        )
    if link.state == LaneState.TRANSIENT:
        return (
            f"The wait that {link.partner} asked for ends: message {flying.sequence_number} is"
            " sent again now, with the same bytes. No retry is used. The partner must be ready"
            " for it."
        )
    out_of_sync = link.suspended_for == IncidentKind.RESYNCHRONISE
    return (
        f"Message {flying.sequence_number} is sent to {link.partner} again now, with the same"
        " bytes, number and MessageId. Its retry counter restarts at 0 of"
        f" {flying.terms.retries}. After its Acknowledgement, the queue follows in order. If"
        " the partner has already stored the message, it discards the duplicate and"
        " acknowledges it again. The incidents of this link are resolved with your reason. The"
        " partner must be reachable."
        + (" Sequence numbers are out of sync: resynchronise instead." if out_of_sync else "")
    )


def last_answer_of(link: OutboundLink) -> Any:
    """How the last attempt of the message in flight ended, None if none has. `link`: best with
    `last_answer`, as the list of links has it."""
    if hasattr(link, "last_answer"):
        return link.last_answer
    ended = Attempt.objects.filter(message=link.in_flight_id, ended_at__isnull=False)
    return ended.order_by("-number").values("number", "outcome", "detail", "reason").first()


def retried(link: OutboundLink) -> Reason | None:
    if link.state not in (LaneState.WAITING, LaneState.TRANSIENT):
        return None
    last = last_answer_of(link)
    if not last or not is_retrying(last["outcome"], link.retries_spent):
        return None
    return Reason(last["reason"])
