"""Messages by business key, for users who may see payloads: a key is a part of one."""

from collections.abc import Sequence

from django.http import HttpRequest

from msh.models import BusinessKey, InboundMessage, OutboundMessage

from . import markup
from .pages import Table

DIRECTIONS = ("outbound", "inbound")


def may_see_keys(request: HttpRequest, direction: str) -> bool:
    names = (f"msh.view_{direction}message", f"msh.view_payload_{direction}message")
    return request.user.has_perms(names)


def messages_with_key(request: HttpRequest, direction: str, value: str) -> list[int]:
    """Row ids of messages of this direction; none for who may not see their payloads."""
    may_see = may_see_keys(request, direction)
    return BusinessKey.objects.messages(value, direction) if may_see else []


def message_ids_with_key(request: HttpRequest, value: str) -> Sequence[str]:
    """MessageIds of messages of both directions."""
    out = OutboundMessage.objects.filter(pk__in=messages_with_key(request, "outbound", value))
    into = InboundMessage.objects.filter(pk__in=messages_with_key(request, "inbound", value))
    return [*out.values_list("message_id", flat=True), *into.values_list("message_id", flat=True)]


def keys_of(request: HttpRequest, direction: str, message: int) -> list[Table]:
    """The table of a message's keys; none without keys, or for who may not see its payloads."""
    if not may_see_keys(request, direction):
        return []
    keys = BusinessKey.objects.filter(**{direction: message}, rule__enabled=True)
    rows = [(key.rule.name, markup.isolated(key.value)) for key in keys.select_related("rule")]
    return [Table("Business keys", ("Key", "Value"), rows, "")] if rows else []
