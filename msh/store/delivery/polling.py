"""What there is to deliver now. Nothing is locked: who takes one of these looks again."""

from collections.abc import Collection
from typing import TypeVar

from msh.models import Consumer
from msh.store.engine import Call, Statement, run
from msh.store.sending.message_sql import LARGE
from msh.store.sending.polling import AT_ONCE, Places

from . import polling_sql
from .polling_sql import DueDelivery, DueDeliveryToPost, NewHead, NewHeadToPost

Row = TypeVar("Row")


def find_new_to_post(busy: Collection[int], places: Places) -> list[NewHeadToPost]:
    """`busy`: keys of orders, see `NewHead`."""
    call = _to_post(polling_sql.FIND_NEW_TO_POST, places, busy=list(busy))
    return run(call)[0]


def find_new_to_call(
    busy: Collection[int], threadless: Collection[int], limit: int
) -> list[NewHead]:
    return run(
        polling_sql.FIND_NEW_TO_CALL(busy=list(busy), threadless=list(threadless), limit=limit)
    )[0]


def _to_post(statement: Statement[Row], places: Places, **values: object) -> Call[Row]:
    return statement(
        limit=places.limit,
        limit_of_large=places.limit_of_large,
        of_consumer=places.of_partner,
        full=list(places.full),
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
    again, new = run(
        polling_sql.FIND_DUE_OF_CONSUMER(consumer_id=consumer.pk, limit=limit),
        polling_sql.FIND_NEW_OF_CONSUMER(consumer_id=consumer.pk, limit=limit),
    )
    return [row.id for row in again], [row.message_key for row in new]


def find_due(
    busy: Collection[int], threadless: Collection[int], places: Places
) -> tuple[list[DueDelivery], list[DueDeliveryToPost]]:
    """Deliveries, none of `busy`, that need a thread: to be run again, with a lease that is over,
    or whose message is to leave; none that needs one of a consumer which has no more. And those
    that are to be posted again, no more than there are places."""
    to_call, to_post = run(
        polling_sql.FIND_DUE_TO_CALL(busy=list(busy), threadless=list(threadless), limit=AT_ONCE),
        _to_post(polling_sql.FIND_DUE_TO_POST, places, busy=list(busy)),
    )
    return to_call, to_post
