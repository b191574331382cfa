"""One action on many rows: counted first, then done in the background.

What is done to a row and the mark that it was done commit together: a worker that is killed leaves
no row half done, and the next one goes on where it was. Actions that many rows take together are
done in sets, each a transaction of a tenth of a second; the others row by row.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, TypedDict, Unpack
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import F, QuerySet
from django.db.models.expressions import Combinable

from msh.faults import CrashPoint, reach
from msh.flows.errors import NotPossible, NotYet
from msh.flows.operations import change_flight, change_link, operator_submissions
from msh.flows.operations.cancel import cancel as cancel_message
from msh.flows.operations.cancel import cancel_many
from msh.flows.operations.change_delivery import decide_one, run_again_many
from msh.flows.operations.many import replay, stopped_messages
from msh.flows.operations.many.confirmation import begin_once, new_job
from msh.models import (
    EVER,
    BulkAction,
    BulkItem,
    BulkJob,
    Delivery,
    OutboundLink,
    OutboundMessage,
    place_of,
)
from msh.protocol.kinds import DeliveryState
from msh.store import capacity
from msh.store.history import Actor
from msh.store.operations.bulk_jobs import (
    begin_set,
    cancel_job,
    claim_item,
    claim_job,
    claim_next,
    end_items,
    end_jobs,
    first_item,
    skip_item,
    start_job,
)
from msh.store.sending.isolation import describe
from partners.models import Partner

logger = logging.getLogger(__name__)

LIMIT = 100_000
"""Rows of one job at most."""
SLICE = 10.0
"""Seconds after which a worker gives its thread back; the next sweep goes on."""
FIRST, LARGEST = 200, 1000
"""Rows of the first set, and of one at most. On a busy machine, too, a set has as many as the
first: what it takes whatever its size is a tenth of a second there."""
SET_TAKES = 0.4
"""Seconds that a larger set may take: as long as that, nothing else is done on the links of its
rows. It is made as large as the one before has shown."""
REST = 0.1
"""Of the time that a set has taken: the pause after it, in which others have the links."""

_running = threading.Lock()

Together = Callable[[Sequence[int], Actor], Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows of a bulk action: those since a time, the column that names each, and what is done
    to each. `in_order`: each row is done after the one before, whichever worker has the job.
    `together` does the same to many rows by few statements; it returns why not, of each row, empty
    if it was done. What it returns nothing of is done by `act`."""

    rows: Callable[[datetime], QuerySet[Any]]
    key: str
    label: Combinable
    act: Callable[[int, Actor], None]
    in_order: bool = False
    together: Together | None = None


class Limits(TypedDict, total=False):
    """`consumer`: replays to this consumer. `partner`: messages from or to this one;
    `conversation`: of this ConversationId; `incident`: that failed for it. `spare_copied`: but for
    messages that a job for many leaves out (`stopped_messages.without_copies`). `rejected`:
    deliveries that their application rejected, instead of those that stand still."""

    consumer: int | None
    partner: str
    conversation: str
    incident: int | None
    spare_copied: bool
    rejected: bool


def rows_of(action: str, since: datetime = EVER, **limits: Unpack[Limits]) -> QuerySet[Any]:
    """Return the rows to which the action can be done now."""
    if action == BulkAction.RUN_AGAIN and limits.get("rejected"):
        return _ended_as([DeliveryState.REJECTED], since)
    rows = CHOICES[action].rows(since)
    if action == BulkAction.REPLAY:
        return replay.of(rows, limits.get("consumer"), limits.get("partner", ""))
    if action in OF_MESSAGES:
        about = limits.get("partner", ""), limits.get("conversation", ""), limits.get("incident")
        found = stopped_messages.of(rows, *about)
        return stopped_messages.without_copies(found) if limits.get("spare_copied") else found
    return rows


def only(action: str, rows: QuerySet[Any], keys: Collection[int]) -> QuerySet[Any]:
    return rows.filter(**{f"{CHOICES[action].key}__in": keys})


def _suspended(since: datetime) -> QuerySet[OutboundLink]:
    suspended = OutboundLink.objects.suspended().filter(suspended_since__gte=since)
    return suspended.select_related("partner").order_by("suspended_since", "pk")


def _parked(since: datetime) -> QuerySet[Delivery]:
    """In doubt is none of them: running that again might do it twice."""
    return _ended_as([DeliveryState.PARKED, DeliveryState.BLOCKED], since)


def _ended_as(states: Sequence[DeliveryState], since: datetime) -> QuerySet[Delivery]:
    found = Delivery.objects.filter(state__in=states, ended_at__gte=since)
    return found.select_related("consumer", "message__link__partner").order_by("pk")


def _resume(key: int, actor: Actor) -> None:
    change_link.resume(Partner.objects.get(pk=key), actor)


def _run_again(key: int, actor: Actor) -> None:
    decide_one(key, actor, decision="run-again")


def _cancel(key: int, actor: Actor) -> None:
    """One that is still queued. What is in flight meanwhile needs a verdict of its own."""
    messages = OutboundMessage.objects.select_related("link__partner", "agreement").defer("head")
    message = messages.filter(pk=key).first()
    if message is None:
        raise NotPossible("The message was removed.")
    cancel_message(message, None, actor)


def _nothing(since: datetime) -> QuerySet[OutboundMessage]:
    return OutboundMessage.objects.none()


def _submit_again(key: int, actor: Actor) -> None:
    operator_submissions.submit_again(_stopped_message(key), actor)


def _resume_message(key: int, actor: Actor) -> None:
    change_flight.resume(_stopped_message(key), actor)


def _stopped_message(key: int) -> OutboundMessage:
    messages = OutboundMessage.objects.select_related("link__partner", "agreement").defer("head")
    message = messages.filter(pk=key).first()
    if message is None:
        raise NotPossible("The message was removed.")
    return message


CHOICES: dict[str, Choice] = {
    BulkAction.RESUME: Choice(_suspended, "partner_id", F("partner__name"), _resume),
    BulkAction.RUN_AGAIN: Choice(_parked, "pk", replay.LABEL, _run_again, together=run_again_many),
    # Messages are chosen by link (`many/cancel_queue.py`), not by time.
    BulkAction.CANCEL: Choice(_nothing, "pk", F("message_id"), _cancel, together=cancel_many),
    BulkAction.REPLAY: Choice(replay.replayable, "pk", replay.LABEL, replay.replay, in_order=True),
    BulkAction.SUBMIT_AGAIN: Choice(
        stopped_messages.failed,
        "pk",
        F("message_id"),
        _submit_again,
        in_order=True,
    ),
    BulkAction.RESUME_MESSAGES: Choice(
        stopped_messages.held,
        "pk",
        F("message_id"),
        _resume_message,
        together=change_flight.resume.of_many,
    ),
}
OF_MESSAGES = (BulkAction.SUBMIT_AGAIN, BulkAction.RESUME_MESSAGES)
"""Actions on messages that stand still."""


def seen(action: str, rows: QuerySet[Any]) -> str:
    """Stands for these very rows: a job begins only if they are still the same."""
    return digest_of(rows.values_list(CHOICES[action].key, flat=True)[: LIMIT + 1])


def start(
    action: str,
    since: datetime,
    agreed: str | None,
    actor: Actor,
    *,
    confirmation: UUID | None = None,
    **limits: Unpack[Limits],
) -> BulkJob:
    """Begin with the rows since a time; otherwise as `start_with`."""
    rows = rows_of(action, since, **limits)
    about = _about(**limits)
    whose = Partner.objects.filter(name=limits.get("partner", "")).first()
    job = new_job(action, actor, confirmation, about, since, whose.pk if whose else None)
    return begin_once(job, lambda job: _start(job, rows, agreed))


def start_with(
    action: str,
    rows: QuerySet[Any],
    agreed: str | None,
    actor: Actor,
    about: str,
    *,
    since: datetime = EVER,
    confirmation: UUID | None = None,
) -> BulkJob:
    """Begin with these rows, of `rows_of`. What comes later is not in it.

    `agreed` is what `seen` said to the operator, or `digest_of` the keys that he has chosen; None:
    whatever the rows are now. Raises NotPossible if they are others.

    A `confirmation` that comes again, such as by a double click, gets the job that it has started;
    with another `about` or `since`, what the rows were chosen by, it is refused.
    """
    job = new_job(action, actor, confirmation, about, since)
    return begin_once(job, lambda job: _start(job, rows, agreed))


def start_chosen(job: BulkJob, rows: Sequence[tuple[int, str]]) -> BulkJob:
    """Begin with these rows, (key, label), that the caller has chosen: at most LIMIT."""
    job.total = len(rows)
    with transaction.atomic():
        return start_job(job, rows)


def replay_one(delivery: Delivery, actor: Actor, confirmation: UUID | None = None) -> BulkJob:
    """Raises NotPossible."""

    def begin(job: BulkJob) -> BulkJob:
        if why := replay.why_not(delivery):
            raise NotPossible(f"Not replayed: {why}")
        chosen = Delivery.objects.filter(pk=delivery.pk).values_list("pk", replay.LABEL)
        return start_chosen(job, list(chosen))

    whose = delivery.message.link.partner_id
    job = new_job(BulkAction.REPLAY, actor, confirmation, place_of(delivery), EVER, whose)
    return begin_once(job, begin)


def _about(**limits: Unpack[Limits]) -> str:
    named = ("consumer", "partner", "conversation", "incident")
    parts = {name: limits.get(name) for name in named}
    return " ".join(f"{name}:{value}" for name, value in parts.items() if value)


def _start(job: BulkJob, chosen: QuerySet[Any], agreed: str | None) -> BulkJob:
    choice = CHOICES[job.action]
    with transaction.atomic():
        found = chosen.values_list(choice.key, choice.label)
        rows = list(found[: LIMIT + 1])
        if len(rows) > LIMIT:
            raise NotPossible(f"More than {LIMIT} rows match: narrow the filters or the time.")
        if not rows and agreed in (None, digest_of(())):
            raise NotPossible("Nothing was begun: no row matches.")
        if agreed not in (None, digest_of(key for key, _ in rows)):
            raise NotPossible(
                f"The selection has changed: {len(rows)} rows match now. Check it again."
            )
        return start_chosen(job, rows)


def digest_of(keys: Iterable[int]) -> str:
    return sha256(" ".join(map(str, sorted(keys))).encode()).hexdigest()


def cancel(job: BulkJob, actor: Actor) -> None:
    if not cancel_job(job, actor):
        raise NotPossible("The job has already ended.")


def run() -> int:
    """Go on with every running job; how many rows were dealt with. One thread of a process."""
    if not _running.acquire(blocking=False):
        return 0
    try:
        return _Slice(until=time.monotonic() + SLICE, size=FIRST).run()
    finally:
        _running.release()


@dataclass(slots=True)
class _Slice:
    """What a worker deals with until its time is over. It passes over items that could not be done
    for now, and over the items of jobs that rest. `size`: of the next set."""

    until: float
    size: int
    passed_over: set[int] = field(default_factory=set)
    resting: set[int] = field(default_factory=set)

    def run(self) -> int:
        dealt_with = 0
        while time.monotonic() < self.until:
            began = time.monotonic()
            with transaction.atomic():
                item = claim_item(self.passed_over, self.resting)
                if item is None:
                    break
                done = self._deal_with(item)
                reach(CrashPoint.BULK_BEFORE_COMMIT)
            dealt_with += done
            if done > 1:
                self._rest(done, time.monotonic() - began)
        end_jobs()
        return dealt_with

    def _deal_with(self, item: BulkItem) -> int:
        """How many items were dealt with: this one, or a set of its job that begins with it."""
        choice = CHOICES[item.job.action]
        if choice.in_order:
            return self._in_order(item.job_id)
        if choice.together and self.size > 1:
            return self._together(item, choice.together)
        self.size = 2
        return self._alone([item])

    def _alone(self, items: Sequence[BulkItem]) -> int:
        waiting = [one.pk for one in items if not _deal_with(one)]
        self.passed_over.update(waiting)
        return len(items) - len(waiting)

    def _in_order(self, job: int) -> int:
        item = first_item(job) if claim_job(job) else None
        if item is not None and _deal_with(item):
            return 1
        self.resting.add(job)
        return 0

    def _together(self, first: BulkItem, act: Together) -> int:
        """If a row raises an error or somebody holds it, the next set is smaller, and at last that
        row is alone."""
        items = [first, *claim_next(first, self.size - 1, self.passed_over)]
        try:
            with transaction.atomic():
                begin_set()
                why_not = act([one.key for one in items], _actor(first.job))
                ended = {one.pk: why_not[one.key] for one in items if one.key in why_not}
                end_items(first.job_id, ended)
        except Exception as error:  # noqa: BLE001  it is told when the row is done alone
            logger.info("bulk job %s: smaller sets: %s", first.job_id, error)
            self.size = max(1, self.size // 8)
            return 0
        return len(ended) + self._alone([one for one in items if one.pk not in ended])

    def _rest(self, done: int, seconds: float) -> None:
        larger = max(FIRST, int(done * SET_TAKES / seconds))
        self.size = min(LARGEST, 2 * self.size, larger)
        time.sleep(REST * seconds)


def _deal_with(item: BulkItem) -> bool:
    """False if the database refused for now, or if it has to wait: then it is tried again later.
    Whatever one row raises, the others are dealt with."""
    refused = ""
    try:
        with transaction.atomic():
            CHOICES[item.job.action].act(item.key, _actor(item.job))
    except NotPossible as why:
        refused = str(why)
    except NotYet as why:
        skip_item(item, f"Waiting: {why}")
        return False
    except Partner.DoesNotExist:
        refused = "The partner was removed."
    except Exception as error:
        if isinstance(error, DatabaseError) and not capacity.is_lasting(error):
            logger.warning("bulk job %s skips %s: %s", item.job_id, item.label, error)
            skip_item(item, f"It will be retried. Database error: {error}")
            return False
        logger.exception("bulk job %s: %s could not be processed", item.job_id, item.label)
        refused = describe(error)
    end_items(item.job_id, {item.pk: refused})
    return True


def _actor(job: BulkJob) -> Actor:
    return Actor(job.actor, f"{job.reason} (bulk job {job.pk})")
