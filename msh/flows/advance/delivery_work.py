"""What there is to deliver now. Nothing is locked: who takes one of these looks again."""

from collections.abc import Collection
from typing import Any

from msh.flows.room import LARGE
from msh.models import Consumer, handover, hot

from .work import AT_ONCE, Places


def find_new_to_post(busy_links: Collection[int], places: Places) -> list[Any]:
    """New heads for HTTP consumers: message_key, link_id, partner_id, consumer_id, size (bytes of
    payload). None of `busy_links`, and no more than there are places."""
    return hot.run(_to_post(handover.FIND_NEW_TO_POST, places, busy_links=list(busy_links)))[0]


def find_new_to_call(
    busy_links: Collection[int], threadless: Collection[int], limit: int
) -> list[Any]:
    """New heads for in-process consumers: message_key, link_id, partner_id, consumer_id."""
    values = {"busy_links": list(busy_links), "threadless": list(threadless), "limit": limit}
    return hot.run((handover.FIND_NEW_TO_CALL, values))[0]


def _to_post(statement: str, places: Places, **values: list[int]) -> hot.NamedStatement:
    windows = {"limit": places.limit, "limit_of_large": places.limit_of_large}
    of_consumer = {"of_consumer": places.of_partner, "full": list(places.full), "large": LARGE}
    return statement, {**windows, **of_consumer, **values}


def find_new_of_link(link_id: int) -> Any | None:
    """The new head of this pair, if it has one."""
    (rows,) = hot.run((handover.FIND_NEW_OF_LINK, (link_id,)))
    return rows[0] if rows else None


def find_takeable(consumer: Consumer, limit: int) -> tuple[list[int], list[int]]:
    """For a pull consumer: row ids of deliveries to be taken again, and of new messages."""
    again, new = hot.run(
        (handover.FIND_DUE_OF_CONSUMER, (consumer.pk, limit)),
        (handover.FIND_NEW_OF_CONSUMER, (consumer.pk, limit)),
    )
    return [row.id for row in again], [row.message_key for row in new]


def find_due(
    busy: Collection[int], threadless: Collection[int], places: Places
) -> tuple[list[Any], list[Any]]:
    """Deliveries, none of `busy`, that need a thread: to be run again, with a lease that is over,
    or whose message is to leave; none that needs one of a consumer which has no more. And those
    that are to be posted again, with their size, no more than there are places."""
    values = {"busy": list(busy), "threadless": list(threadless), "limit": AT_ONCE}
    to_call, to_post = hot.run(
        (handover.FIND_DUE_TO_CALL, values),
        _to_post(handover.FIND_DUE_TO_POST, places, busy=list(busy)),
    )
    return to_call, to_post
