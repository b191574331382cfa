"""Operators are notified when an incident opens, a link is stuck, or a message is late while
retries remain: whom the settings name, and the alert recipients. Each notice is sent until it
is taken, at least once.

What is due for a recipient goes as one call, so that a dead network with a thousand partners behind
it is one mail and not a thousand; but PagerDuty takes one event for each.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import timedelta

from django.db import transaction

from msh.alerts.models import OperatorNotice
from msh.alerts.store import (
    Due,
    claim_notices,
    drop,
    due_recipients,
    mark_failed,
    mark_sent,
    put_back,
)
from msh.store.clock import read_clock
from msh.store.operations.windows import quiet_partners
from msh.store.sending.isolation import one_line
from msh.transport.webhook import WebhookFailed
from partners.secrecy import SecretUnreadableError

from .announce import held_again, make_notices
from .call import Call, call_of
from .channels import NoAddress, Target, send, target_of, targets_of_settings, words_of

logger = logging.getLogger(__name__)

BATCH = 100
"""Notices that are sent together: a night with more of them is several mails."""
LEASE = timedelta(minutes=5)
"""More than sending a batch takes; after it another worker sends what this one did not."""
ONE_BY_ONE = 60.0
"""Seconds after which no further notice of a batch is sent by itself: the others are due again."""
BEGIN_WITHIN = 150.0
"""Seconds after the claim within which a batch is begun. With a batch that is sent one by one, and
its slowest calls, this is less than the lease."""
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=30)
"""The wait doubles with each try, from the first to the longest."""
TRIES = 50
"""About a day."""
AT_ONCE = 8
"""Recipients that are called at the same time: a dead one does not keep the others waiting."""

_running = threading.Lock()


@dataclass(frozen=True, slots=True)
class Batch:
    """Notices that go to one recipient as one call. `digest`: they were held back."""

    target: Target
    notices: Sequence[OperatorNotice]
    digest: bool
    calls: Mapping[int, Call | Exception] = field(default_factory=dict)
    """By the id of the notice, as the database says before the threads begin."""


class _NoTime(Exception):
    """The notices were not tried."""


Outcome = tuple[Sequence[OperatorNotice], Exception | None]


def notify_operators() -> int:
    """Make the notices that are missing, then send those that are due. Return how many were sent.

    Only one thread of a worker does it: a second caller returns at once.
    """
    if not _running.acquire(blocking=False):
        return 0
    try:
        by_settings = targets_of_settings()
        with transaction.atomic():
            make_notices(by_settings)
        quiet = quiet_partners(read_clock())
        due = [one for one in due_recipients() if one.to or one.channel in by_settings]
        return _send_all([batch for one in due for batch in _claim(one, by_settings, quiet)])
    finally:
        _running.release()


def _claim(whose: Due, by_settings: Mapping[str, Target], quiet: Collection[int]) -> list[Batch]:
    with transaction.atomic():
        notices = claim_notices(whose, BATCH, LEASE, quiet)
    target = _target(notices) if whose.to else by_settings[whose.channel]
    if target is None:
        return []
    held = [one for one in notices if one.held]
    prompt = [one for one in notices if not one.held]
    if target.is_one_by_one:
        return [Batch(target, [*_still_open(held), *prompt], digest=False)]
    return [Batch(target, some, digest) for some, digest in ((prompt, False), (held, True)) if some]


def _target(notices: Sequence[OperatorNotice]) -> Target | None:
    """Return where the calls of their recipient go. None, and they are tried again later, if it
    cannot be read."""
    recipient = notices[0].recipient if notices else None
    if recipient is None:
        return None
    try:
        return target_of(recipient)
    except (SecretUnreadableError, NoAddress) as error:
        _not_sent(notices, error)
        return None


def _still_open(held: Sequence[OperatorNotice]) -> list[OperatorNotice]:
    """Nobody is woken by an event for what is over; a digest says so."""
    over = [one for one in held if one.incident is not None and one.incident.resolved_at]
    if over:
        drop(over, "resolved in quiet hours")
    return [one for one in held if one not in over]


def _send_all(batches: Sequence[Batch]) -> int:
    """The threads use the network and no database. What one recipient has taken is recorded while
    others are still called."""
    if not batches:
        return 0
    batches = [replace(one, calls=_calls_of(one.notices)) for one in batches]
    sent, until = 0, time.monotonic() + BEGIN_WITHIN
    with ThreadPoolExecutor(min(AT_ONCE, len(batches))) as threads:
        for ended in as_completed([threads.submit(_outcomes, one, until) for one in batches]):
            sent += sum(_record(notices, error) for notices, error in ended.result())
    return sent


def _calls_of(notices: Sequence[OperatorNotice]) -> dict[int, Call | Exception]:
    calls: dict[int, Call | Exception] = {}
    for notice in notices:
        try:
            calls[notice.pk] = call_of(notice)
        except Exception as error:  # noqa: BLE001  one that cannot be told stops no other
            calls[notice.pk] = error
    return calls


def _outcomes(batch: Batch, until: float) -> list[Outcome]:
    if time.monotonic() > until:
        return [(batch.notices, _NoTime())]
    if batch.target.is_one_by_one:
        return list(_one_by_one(batch))
    error = _try(batch, batch.notices)
    if error is None or _is_of_network(error) or len(batch.notices) == 1:
        return [(batch.notices, error)]
    logger.error("%d notices are sent one by one", len(batch.notices), exc_info=error)
    return list(_one_by_one(batch))


def _one_by_one(batch: Batch) -> Iterable[Outcome]:
    """Send each by itself until the network fails, which the others would wait for too, or the time
    is over."""
    until = time.monotonic() + ONE_BY_ONE
    for place, notice in enumerate(batch.notices):
        if place and time.monotonic() > until:
            yield batch.notices[place:], _NoTime()
            return
        error = _try(batch, [notice])
        if error is not None and _is_of_network(error):
            yield batch.notices[place:], error
            return
        yield [notice], error


def _try(batch: Batch, notices: Sequence[OperatorNotice]) -> Exception | None:
    calls: list[Call] = []
    for notice in _once(notices):
        call = batch.calls[notice.pk]
        if isinstance(call, Exception):
            return call
        calls.append(call)
    try:
        send(batch.target, calls, digest=batch.digest)
    except Exception as error:  # noqa: BLE001  whatever it is, the others are called
        return error
    return None


def _once(notices: Sequence[OperatorNotice]) -> Sequence[OperatorNotice]:
    """An incident that had several turns while calls were held back is shown once."""
    return list({one.incident_id or -one.pk: one for one in notices}.values())


def _is_of_network(error: Exception) -> bool:
    return isinstance(error, OSError | WebhookFailed)  # smtplib's errors are OSErrors


def _record(notices: Sequence[OperatorNotice], error: Exception | None) -> int:
    if error is None:
        mark_sent(notices)
        return len(notices)
    if isinstance(error, _NoTime):
        put_back(notices)
    else:
        _not_sent(notices, error)
    return 0


def _not_sent(notices: Sequence[OperatorNotice], error: Exception) -> None:
    why = words_of(error)
    whom = notices[0].to or notices[0].channel
    logger.warning("%d notices did not reach %s: %s", len(notices), whom, why)
    _put_off(notices, one_line(why))


def _put_off(notices: Sequence[OperatorNotice], why: str) -> None:
    with transaction.atomic():
        for notice in notices:
            wait = min(FIRST_WAIT * 2 ** min(notice.tries - 1, 10), LONGEST_WAIT)
            until = held_again(notice, wait)
            mark_failed(notice, why, wait, until, give_up=notice.tries >= TRIES)
