"""Messages of both directions by business key."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db.models import QuerySet

from msh.business_keys.models import FOUND_LIMIT, BusinessKey
from msh.models import Direction


@dataclass(frozen=True, slots=True)
class Found:
    direction: str
    id: int
    message_id: str
    partner: str
    state: str
    at: datetime
    key: str
    value: str

    def as_document(self) -> dict[str, object]:
        return asdict(self)


def messages_with_key(value: str, *, name: str = "") -> list[Found]:
    """Return the newest of each direction first, at most FOUND_LIMIT of each."""
    keys = BusinessKey.objects.filter(value=value, rule__enabled=True).order_by("-id")
    if name:
        keys = keys.filter(rule__name=name)
    return [*_found(keys, "outbound", "submitted_at"), *_found(keys, "inbound", "received_at")]


def _found(keys: QuerySet[BusinessKey], side: str, time: str) -> Iterator[Found]:
    of_side = keys.filter(**{f"{side}__isnull": False})
    columns = ("message_id", "link__partner__name", "state", time)
    names = (side, *(f"{side}__{column}" for column in columns), "rule__name", "value")
    direction = Direction.OUT if side == "outbound" else Direction.IN
    for row in of_side.values_list(*names)[:FOUND_LIMIT]:
        yield Found(direction.value, *row)
