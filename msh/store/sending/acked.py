"""The link of a message whose Acknowledgement has come, taken without a lock. Within a queue also
without reading it: this process wrote the link last, and has read what is queued.

What it remembers counts only together with the statement that finds it unchanged.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, Self

from msh.models.link import terms_of
from msh.store.cache import Cache
from msh.store.engine import run
from partners.models import Partner

from . import fast_path, link_sql, message_sql
from .effects import text_of
from .fast_path import Written
from .link_sql import LinkRow
from .links import OutboundLinks
from .message_sql import LARGE, FollowingCopy

_MANY = 16
"""Messages of a queue that are read at once, by the process that takes its Acknowledgements."""
_FEW = 4
"""By one that takes the first of them: most likely it takes the next as well."""
_BYTES = 32 * 1024
"""Of payload and of headers that are forwarded, for all of them. A thousand links are
remembered."""
_LONGEST = 60.0
"""Seconds after which the database is asked for its time again: its clock may have been set."""


class _Known(NamedTuple):
    """`row`: as it would be read now. `copies`: what is queued, the head first. `asked_at`: of the
    monotonic clock, no later than `row.now`."""

    row: LinkRow
    copies: Sequence[FollowingCopy]
    asked_at: float


_known: Cache[int, _Known] = Cache(share=0.1)


@dataclass(slots=True)
class AckedLink:
    """`links` has this link, unless there is none, or `partner` is not as it is remembered any
    more. `sent_state`: of the message that the Acknowledgement refers to, None if it is not ours.
    """

    partner: Partner
    links: OutboundLinks
    sent_state: str | None
    _copies: Sequence[FollowingCopy]
    _is_read: bool
    found_changed: bool = False
    """Set by `write` on a conflict: the caller may try again."""

    @classmethod
    def cached(cls, partner: Partner, message_id: str) -> Self | None:
        """Return the link as it is cached; None unless this message is in flight by the cache, and
        another is queued."""
        known = _known.get(partner.pk)
        if known is None or known.row.message_id != message_id or not known.copies:
            return None
        elapsed = time.monotonic() - known.asked_at
        if elapsed > _LONGEST or known.copies[0].as_read != partner.as_read:
            return None
        links = OutboundLinks.of([known.row])
        links.now += timedelta(seconds=elapsed)
        return cls(partner, links, known.row.sent_state, known.copies, _is_read=False)

    @classmethod
    def read(cls, partner: Partner, message_id: str) -> Self:
        known = _known.get(partner.pk)
        is_expected = known is not None and known.row.message_id == message_id
        rows, copies = run(
            link_sql.READ_WITH_SENT(
                credential_id=partner.credential_id, message_id=message_id, partner_id=partner.pk
            ),
            message_sql.LOAD_FOLLOWING(
                credential_id=partner.credential_id,
                partner_id=partner.pk,
                limit=_MANY if is_expected else _FEW,
                large=LARGE,
                bytes=_BYTES,
            ),
        )
        links = OutboundLinks.of(row for row in rows if row.as_read == partner.as_read)
        state = rows[0].sent_state if rows else None
        return cls(partner, links, state, copies, _is_read=True)

    @property
    def following(self) -> FollowingCopy | None:
        """Return the head of the queue if that is not large."""
        return self._copies[0] if self._copies else None

    def write(self) -> bool:
        """Write in one statement, its own transaction, if all that was decided by is still as it
        was read or remembered.

        False, with nothing written, if it is not, or if there is more to write than usual.
        """
        key = self.partner.pk
        _known.pop(key, None)
        version = self.links.locked(key).row.version
        call = fast_path.if_unchanged(self.links.calls(), version, self._proof())
        if call is None:
            return False
        asked_at = time.monotonic()
        written = run(call)[0]
        if not written:
            self.found_changed = True
            return False
        if self.links.lane(key).promised:
            copies = list(_that_fit(self._copies[1:]))
            _known.put(key, _Known(self._row_after(written[0], copies), copies, asked_at))
        return True

    def _proof(self) -> dict[str, object] | None:
        if self._is_read:
            return None
        return {
            "credential_id": self.partner.credential_id,
            "as_read": self.partner.as_read,
            "next_version": self._copies[0].version,
        }

    def _row_after(self, written: Written, copies: Sequence[FollowingCopy]) -> LinkRow:
        """Return the row as it would be read after this: with the first of ours promised, and the
        first of `copies` the head of the queue."""
        key, flying = self.partner.pk, self._copies[0]
        locked = self.links.locked(key)
        state: dict[str, Any] = vars(locked.state())
        head = copies[0] if copies else None
        terms: dict[str, Any] = {name: getattr(head, name, None) for name in _TERMS}
        return replace(
            locked.row,
            **{name: value for name, value in state.items() if name != "link_id"},
            **terms,
            message_id=flying.message_id,
            sequence_number=locked.lane.flying.sequence_number,
            terms=text_of(terms_of(flying)),
            forwards_id=flying.forwards_id,
            size=flying.size,
            head_id=head.id if head else None,
            head_message_id=head.message_id if head else None,
            head_sequence_number=None,
            head_epoch=None,
            head_earlier_attempts=head.earlier_attempts if head else None,
            now=written.at,
            version=written.version,
            sent_state="in_flight",
        )


def _that_fit(copies: Sequence[FollowingCopy]) -> Iterator[FollowingCopy]:
    """Return the first of them, until they take too much memory: what is forwarded has a header as
    large as its sender liked."""
    room = _BYTES
    for one in copies:
        room -= one.size + len(one.forwarded_header or b"")
        if room < 0:
            return
        yield one


_TERMS = (
    *("timeout", "retries", "retry_interval", "early_warning"),
    *("transient_count_limit", "transient_time_limit", "transient_wait_limit"),
)
