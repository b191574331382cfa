"""Business keys: values of payloads are taken and indexed shortly after a message is stored, and
of what was stored before, newest first.

Not in the transaction of the message: see docs/decisions/2026-11-23-business-keys.md. Each batch
is a transaction of its own with how far it came: a worker that is killed loses nothing.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.db import DatabaseError, transaction

from msh import wire
from msh.business_keys.models import KeyProgress, KeyRule
from msh.business_keys.store import (
    DIRECTIONS,
    Indexing,
    Unindexed,
    forget_progress,
    lock_progress,
    remove_keys,
)
from msh.protocol.business_keys import PathRefused
from msh.wire.business_keys import KeyPath, document_of, key_path

logger = logging.getLogger(__name__)

BATCH = 200
"""Messages of one transaction."""
AT_ONCE = 8
"""Messages whose payloads are in memory at once."""
REMOVED = 1000
"""Values of a rule that is off, removed in one transaction."""
SLICE = 5.0
"""Seconds after which a worker gives its thread back; the next sweep goes on."""


@dataclass(frozen=True, slots=True)
class _Rule:
    row: KeyRule
    path: KeyPath

    def fits(self, message: Unindexed) -> bool:
        rule = self.row
        return (
            rule.agreement_id in (None, message.agreement_id)
            and rule.service_interface in ("", message.service_interface)
            and rule.action in ("", message.action)
        )


def index_keys() -> int:
    """Index what is new, and return how many messages were looked at. Without rules this is one
    statement."""
    rows = list(KeyRule.objects.all())
    if not rows:
        return 0
    off = [row for row in rows if not row.enabled]
    until = time.monotonic() + SLICE
    while off and _remove(off) == REMOVED and time.monotonic() < until:
        pass
    if len(off) == len(rows):
        if KeyProgress.objects.exists():
            with transaction.atomic():
                forget_progress()
        return 0
    looked_at = 0
    for direction in DIRECTIONS:
        while (more := _index(direction)) and time.monotonic() < until:
            looked_at += more
        looked_at += more
    return looked_at


def _remove(off: Sequence[KeyRule]) -> int:
    with transaction.atomic():
        return remove_keys(off, REMOVED)


def _usable(rows: Iterable[KeyRule]) -> Iterator[_Rule]:
    for row in rows:
        try:
            yield _Rule(row, key_path(row.path, row.namespaces))
        except PathRefused as problem:  # it was checked when it was saved
            logger.error("business key %s is not used: %s", row, problem)


def _index(direction: str) -> int:
    """Index one batch, and return how many messages it was. Its rules are those under its lock:
    what it passes with rules that were read before, a new rule would never see."""
    with transaction.atomic():
        indexing = lock_progress(direction)
        if indexing is None:
            return 0
        rules = list(_usable(KeyRule.objects.filter(enabled=True)))
        if not rules:
            return 0
        looked_at = 0
        found: list[tuple[int, int, str]] = []
        for messages in (indexing.newer(BATCH), indexing.settled(BATCH)):
            found += _values(indexing, messages, rules)
            looked_at += len(messages)
        for rule in rules if looked_at < BATCH else ():  # what is new comes first
            older = indexing.older(rule.row, BATCH)
            found += _values(indexing, older, [rule])
            looked_at += len(older)
        indexing.keep(found)
    return looked_at


def _values(
    indexing: Indexing, messages: Sequence[Unindexed], rules: Sequence[_Rule]
) -> Iterator[tuple[int, int, str]]:
    wanted = {
        message.id: (message, fitting)
        for message in messages
        if (fitting := [rule for rule in rules if rule.fits(message)])
    }
    keys = list(wanted)
    for start in range(0, len(keys), AT_ONCE):
        for document in indexing.documents(keys[start : start + AT_ONCE]):
            message, fitting = wanted[document.message_id]
            yield from _values_of(message, document.content, fitting)


def _values_of(
    message: Unindexed, content: bytes, rules: Sequence[_Rule]
) -> Iterator[tuple[int, int, str]]:
    """Return its values, and none of what cannot be read: no payload stops the job."""
    try:
        if message.boundary:
            content = wire.part_content(content, message.boundary)
        if (root := document_of(content)) is None:
            return
        for rule in rules:
            for value in rule.path.values(root):
                yield rule.row.pk, message.id, value
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a payload makes of the parser
        logger.warning("no business keys of message %s: %s", message.id, type(error).__name__)
