"""Why a message is not sent or not acknowledged yet, in words: for the console, API and commands.

`explanation` decides by values alone, `explanation_of` reads them.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from django.utils.timezone import localtime

from msh.models import OutboundMessage, OutboundState
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.errors import UnreadableTermsError
from msh.protocol.lane import InFlight, Lane, LaneState
from msh.protocol.reason import Reason, deciding
from msh.store.operations.queue_place import MOST

from .causes import OUTCOMES, cause_of, is_retrying, retrying
from .copies import longest, story_of_copies
from .situation import ENDED, LastAttempt, Situation, situation_of
from .ways import Standing, filled, words_of
from .why_not_acknowledged import (
    COPY_UNDER_WAY,
    explanation_of_flight,
    stops_its_conversation,
)

OVERDUE = timedelta(seconds=15)
"""A worker polls every second: work that is overdue for longer is not being done."""
LONGEST = 1_000
"""Characters of a partner's answer that are shown: a sentence is to stay one."""

_INSTEAD = filled("If it is still needed, {again}. To change it, {instead}.", Standing.FAILED)
_VERDICTS = {
    "received": "the partner has it",
    "not_received": "the partner does not have it",
    "unknown": "unknown whether the partner has it",
}

_REMOVED = "It was removed by retention."


def explanation_of(key: int) -> str:
    """Return the explanation of the outbound message with this id, and of the copies that were
    submitted again for it."""
    message = _read(key)
    return words_of(advised(message)) if message else _REMOVED


def advised(message: OutboundMessage) -> str:
    """The same, with marks of the actions that it names (`ways.py`)."""
    return f"{_explanation_of(message)}{story_of_copies(message)}"


def _read(key: int) -> OutboundMessage | None:
    """With its flight, by one statement: it may end at any time."""
    messages = OutboundMessage.objects.select_related("link__in_flight", "flight__ordered_in")
    return messages.defer("head", "link__in_flight__head").filter(pk=key).first()


def _explanation_of(message: OutboundMessage) -> str:
    if message.state == OutboundState.FLYING and not hasattr(message, "flight"):
        if (now := _read(message.pk)) is None:
            return _REMOVED
        message = now
    if message.state == OutboundState.FLYING or stops_its_conversation(message):
        return explanation_of_flight(message)
    situation = situation_of(message)
    try:
        if overdue_since(situation):
            situation = replace(situation, stopped=_stopped())
        return _told(situation)
    except UnreadableTermsError as error:
        return f"The terms of the message in flight cannot be read: {error}."


def overdue_since(situation: Situation) -> datetime | None:
    """When the next step should have happened, if it has not; None if there is no such step."""
    lane = situation.lane
    if situation.state in ENDED:
        return None
    if situation.best_effort and situation.state == OutboundState.IN_FLIGHT:
        due = situation.due
    elif lane.state is LaneState.IDLE or (situation.best_effort and _is_open(lane)):
        due = situation.submitted_at
    else:
        due = lane.due
    return due if due is not None and situation.place.now - due > OVERDUE else None


def explanation(situation: Situation) -> str:
    """Why it is not sent or not acknowledged yet, or how it ended; with the cure, if there is one.
    A few sentences."""
    return words_of(_told(situation))


def _told(situation: Situation) -> str:
    if situation.state in ENDED:
        return _end(situation)
    under_way = situation.best_effort and situation.state == OutboundState.IN_FLIGHT
    if situation.lane.state is LaneState.SUSPENDED and not under_way:
        parts = [_suspension(situation)]
    elif situation.best_effort:
        parts = [_best_effort(situation)]
    elif situation.lane.in_flight is not None:
        parts = [_flight(situation, situation.lane.in_flight)]
    elif situation.lane.state is LaneState.TRANSIENT:
        parts = [_asked_to_wait(situation.lane)]
    else:
        parts = ["The link is idle and nothing is in flight: the next poll sends the first message"]
    parts.append(_before(situation))
    since = overdue_since(situation)
    if since is not None:
        parts.append(f"Overdue since {_time(since)}")
        parts.append(_poller(situation))
    return " ".join(map(_sentence, filter(None, parts)))


def _sentence(text: str) -> str:
    """With one stop at its end. The words of a partner may have their own."""
    return text if text.endswith(("!", "?")) else f"{text.rstrip('.')}."


def _end(situation: Situation) -> str:
    at = _time(situation.completed_at)
    match situation.state:
        case OutboundState.ACKNOWLEDGED:
            return f"Acknowledged at {at}."
        case OutboundState.SENT:
            return f"Sent at {at}. A BestEffort message is not acknowledged."
        case OutboundState.FAILED:
            answer = _answer(situation.attempt) or "it is unknown how the attempt ended"
            attempt = situation.attempt
            last = attempt.detail if attempt else ""
            if situation.failed_for and not (last and last in situation.failed_for):
                answer = f"{_one_line(situation.failed_for)}. Last answer: {answer}"
            why = (
                "A BestEffort message has one attempt."
                if situation.best_effort
                else "No further copy is sent; a late Acknowledgement still completes it."
            )
            said = f"Failed at {at}: {answer}. {why}"
            return said if situation.sent_instead else f"{said} {_INSTEAD}"
    verdict = _VERDICTS.get(situation.verdict, "")
    return f"Cancelled at {at}{': ' if verdict else ''}{verdict}."


def _suspension(situation: Situation) -> str:
    lane = situation.lane
    attempt = situation.attempt
    detail = situation.suspended_detail
    reason = deciding(situation.suspended_reason, attempt.reason if attempt else Reason.NONE)
    flying = lane.in_flight
    own = flying is not None and flying.message_id == situation.message_id
    standing = Standing.LINK if own else Standing.GATE
    cause = cause_of(lane.suspended_for, reason, standing)
    detail = _one_line(detail)
    where = f", at message {flying.message_id} (number {flying.sequence_number})" if flying else ""
    late = f"The Acknowledgement came late. {filled('{Again}.', Standing.LINK)}"
    advice = late if lane.late_ack else cause.text
    return (
        f"The link has been suspended since {_time(situation.suspended_since)}{where}:"
        f" {cause.title}{f' ({detail})' if detail else ''}.{_last_words(situation)}"
        f"{_still_under_way(situation)} {advice}"
    )


def _last_words(situation: Situation) -> str:
    """Return the last words of the partner, unless the cause repeats them already."""
    attempt = situation.attempt
    if attempt is None or attempt.detail == situation.suspended_detail or not _answer(attempt):
        return ""
    return f" Last answer: {_sentence(_answer(attempt))}"


def _still_under_way(situation: Situation) -> str:
    attempt = situation.attempt
    if attempt is None or attempt.ended_at is not None:
        return ""
    lost = situation.place.now - attempt.claimed_at > longest()
    return "" if lost else f" {COPY_UNDER_WAY}"


def _flight(situation: Situation, flying: InFlight) -> str:
    own = flying.message_id == situation.message_id
    number = f"number {flying.sequence_number}"
    subject = number.capitalize() if own else f"Message {flying.message_id} ({number})"
    before = "" if own else " before it"
    lane = situation.lane
    if lane.state is LaneState.TRANSIENT:
        return (
            f"The partner asked us to wait, {_times(flying.transients)}: {subject[:1].lower()}"
            f"{subject[1:]} is sent again at {_time(lane.due)}"
        )
    if lane.promised:
        return (
            f"{subject} is in flight{before}: one worker was asked to send attempt"
            f" {flying.attempt}. If it does not, any worker sends it from {_time(lane.due)} on"
        )
    if lane.unsent:
        return (
            f"{subject} is in flight{before}: attempt {lane.attempt_to_send} has not been sent yet."
            f" It is due at {_time(lane.due)}, when the worker has a free place for this partner"
        )
    return f"{subject} is in flight{before}: {_progress(situation, flying)}"


def _progress(situation: Situation, flying: InFlight) -> str:
    due, attempt = _time(situation.lane.due), situation.attempt
    left = flying.retries_spent < flying.terms.retries
    then = f"The next copy is sent at {due}" if left else f"The link is suspended at {due}"
    if attempt is not None and attempt.ended_at is None:
        return (
            f"attempt {flying.attempt} has been in progress since {_time(attempt.claimed_at)}."
            f" {then}"
        )
    answer = _answer(attempt)
    return (
        f"{flying.attempt} attempt{'' if flying.attempt == 1 else 's'}, no Acknowledgement yet"
        f"{f'. Last answer: {answer}' if answer else ''}. {then} unless it is acknowledged"
        f"{_advice(attempt, flying)}"
    )


def _advice(attempt: LastAttempt | None, flying: InFlight) -> str:
    if attempt is None or not is_retrying(attempt.outcome, flying.retries_spent):
        return ""
    cause = retrying(attempt.reason)
    return f". {cause.text}" if cause else ""


def _best_effort(situation: Situation) -> str:
    lane = situation.lane
    if situation.state == OutboundState.IN_FLIGHT:
        return (
            "Its one attempt is in progress. If the worker is lost, the message fails at"
            f" {_time(situation.due)}"
        )
    if lane.state is LaneState.TRANSIENT:
        return _asked_to_wait(lane)
    if not _is_open(lane):
        return "The partner is being probed: BestEffort messages wait until it answers"
    return "It is waiting for a worker with a free place for this partner"


def _is_open(lane: Lane) -> bool:
    """Whether BestEffort messages are sent: they do not wait for the message in flight."""
    probed = lane.in_flight is not None and lane.in_flight.probing
    return lane.state in (LaneState.IDLE, LaneState.WAITING) and not probed


def _asked_to_wait(lane: Lane) -> str:
    return f"The partner asked us to wait: nothing is sent before {_time(lane.due)}"


def _before(situation: Situation) -> str:
    place = situation.place
    count = place.rewound + place.queued
    if situation.state == OutboundState.IN_FLIGHT or not count:
        return ""
    more = "at least " if MOST in (place.rewound, place.queued) else ""
    again = f", {place.rewound} of them to be sent again" if place.rewound else ""
    noun = "message is" if count == 1 and not more else "messages are"
    return f"In the queue {more}{count} {noun} before it{again}"


def _poller(situation: Situation) -> str:
    """Return a sentence about why overdue work is not done."""
    if situation.stopped:
        return f"Nothing polls the link. {situation.stopped}"
    return "A worker is running: it has no free place, or its log says why it fails"


def _answer(attempt: LastAttempt | None) -> str:
    if attempt is None or attempt.ended_at is None:
        return ""
    outcome = OUTCOMES[AttemptOutcome(attempt.outcome)] if attempt.outcome else ""
    return ", ".join(filter(None, (outcome, _one_line(attempt.detail))))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def _time(at: datetime | None) -> str:
    return f"{localtime(at):%Y-%m-%d %H:%M:%S %Z}" if at else "an unknown time"


def _stopped() -> str:
    from msh.health import processes  # noqa: PLC0415  a command loads Redis only if it must

    (worker,) = [process for process in processes() if process.name == "worker"]
    if not worker.known:
        return "Redis does not answer, so nobody knows whether a worker is running. Start it"
    return "" if worker.alive else f"The worker {worker.words}. Start it"
