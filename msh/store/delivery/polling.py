"""Polls for messages to deliver. Nothing is locked: a message is checked again when it is taken."""

from collections import defaultdict
from collections.abc import Collection
from typing import TypeVar

from msh.models import Consumer
from msh.store.engine import USE_INDEX_ORDER, Call, Statement, run
from msh.store.sending.message_sql import LARGE
from msh.store.sending.polling import AT_ONCE, Slots

from . import polling_sql
from .polling_sql import DueDelivery, DueDeliveryToPost, NewHead, NewHeadToPost

Row = TypeVar("Row")
Head = TypeVar("Head", bound=NewHead)

OF_PAIR = 8
"""Deliveries of one pair to one consumer in our process that one poll finds to be run again."""
POSITIONS_KEPT = 1000
"""The number of partners whose position a process keeps at most, for each kind of poll. Nothing is
lost with it: the poll begins with the oldest conversation again."""


class _Positions:
    """The position from which the next poll continues: for each partner, after the conversations
    that were found last."""

    def __init__(self) -> None:
        self._behind: dict[int, int] = {}

    def values(self) -> dict[str, list[int]]:
        behind = dict(self._behind)
        return {"partners": list(behind), "behind": list(behind.values())}

    def after(self, heads: list[Head]) -> list[Head]:
        found: dict[int, list[int]] = {}
        for head in heads:
            if head.order_key < 0:
                found.setdefault(head.partner_id, []).append(-head.order_key)
        if len(self._behind) + len(found) > POSITIONS_KEPT:
            self._behind = {}
        for partner, keys in found.items():
            last = self._behind.get(partner, 0)
            # Those up to the last one were found after it, from the first on.
            self._behind[partner] = max([key for key in keys if key <= last] or keys)
        return heads


_positions: defaultdict[int | str, _Positions] = defaultdict(_Positions)
"""Positions by what is polled for: the kind of consumer that workers serve, or the id of a consumer
that pulls."""


def find_new_to_post(busy: Collection[int], slots: Slots) -> list[NewHeadToPost]:
    """`busy`: keys of orders, see `NewHead`."""
    positions = _positions["http"]
    call = _to_post(polling_sql.FIND_NEW_TO_POST, slots, busy=list(busy), **positions.values())
    return positions.after(run(call)[0])


def find_new_to_call(
    busy: Collection[int], threadless: Collection[int], limit: int
) -> list[NewHead]:
    positions = _positions["in_process"]
    call = polling_sql.FIND_NEW_TO_CALL(
        busy=list(busy), threadless=list(threadless), limit=limit, **positions.values()
    )
    return positions.after(run(call)[0])


def _to_post(statement: Statement[Row], slots: Slots, **values: object) -> Call[Row]:
    return statement(
        limit=slots.limit,
        limit_of_large=slots.limit_of_large,
        of_consumer=slots.of_partner,
        full=list(slots.full),
        large=LARGE,
        **values,
    )


def find_next(order_key: int) -> NewHead | None:
    """The head of this order, if it is new and a consumer takes it."""
    of_link = order_key > 0
    find = polling_sql.FIND_NEW_OF_LINK if of_link else polling_sql.FIND_NEW_OF_CONVERSATION
    (rows,) = run(find(key=abs(order_key)))
    return rows[0] if rows else None


def find_takeable(consumer: Consumer, limit: int) -> tuple[list[int], list[int]]:
    """Return the messages for a consumer that pulls, and record that it has asked."""
    positions = _positions[consumer.pk]
    _, again, new, _ = run(
        USE_INDEX_ORDER(),
        polling_sql.FIND_AGAIN_OF_CONSUMER(
            consumer_id=consumer.pk, limit=limit, of_pair=limit, busy=[], orders=[]
        ),
        polling_sql.FIND_NEW_OF_CONSUMER(
            consumer_id=consumer.pk, limit=limit, **positions.values()
        ),
        polling_sql.NOTE_FETCH(consumer_id=consumer.pk),
    )
    return [row.id for row in again], [row.message_key for row in positions.after(new)]


def find_due(
    busy: Collection[int],
    threadless: Collection[int],
    slots: Slots,
    orders: Collection[int] = (),
) -> tuple[list[DueDelivery], list[DueDeliveryToPost]]:
    """Deliveries, none of `busy`, that need a thread: to be run again, with a lease that is over,
    or whose message is to leave; none that needs one of a consumer which has no more, and none of
    the `orders` in which a thread is at work. And those that are to be posted again, no more than
    there are slots."""
    _, to_call, to_post = run(
        USE_INDEX_ORDER(),
        polling_sql.FIND_DUE_TO_CALL(
            busy=list(busy),
            threadless=list(threadless),
            orders=list(orders),
            limit=AT_ONCE,
            of_pair=OF_PAIR,
        ),
        _to_post(
            polling_sql.FIND_AGAIN_TO_POST,
            slots,
            busy=list(busy),
            orders=[],
            of_pair=slots.of_partner,
        ),
    )
    return to_call, to_post
