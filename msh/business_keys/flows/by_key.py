"""Messages of both directions by business key."""

from collections.abc import Collection, Iterator
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


def messages_with_key(
    value: str, *, name: str = "", partner_ids: Collection[int] | None = None
) -> list[Found]:
    """Return the newest of each direction first, at most FOUND_LIMIT of each. `partner_ids`: only
    messages to and from these partners."""
    keys = BusinessKey.objects.filter(value=value, rule__enabled=True).order_by("-id")
    if name:
        keys = keys.filter(rule__name=name)
    sides = (("outbound", "submitted_at"), ("inbound", "received_at"))
    return [one for side in sides for one in _found(keys, *side, partner_ids)]


def _found(
    keys: QuerySet[BusinessKey], side: str, time: str, partner_ids: Collection[int] | None
) -> Iterator[Found]:
    of_side = keys.filter(**{f"{side}__isnull": False})
    if partner_ids is not None:
        of_side = of_side.filter(**{f"{side}__link__partner__in": partner_ids})
    columns = ("message_id", "link__partner__name", "state", time)
    names = (side, *(f"{side}__{column}" for column in columns), "rule__name", "value")
    direction = Direction.OUT if side == "outbound" else Direction.IN
    for row in of_side.values_list(*names)[:FOUND_LIMIT]:
        yield Found(direction.value, *row)
