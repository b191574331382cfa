"""Messages by business key, for users who may see payloads: a key is a part of one."""

from collections.abc import Sequence

from django.http import HttpRequest

from msh.admin.framework import markup
from msh.admin.framework.found_by import (
    keys_shown,
    more_messages,
    names_searched,
    tables_of_message,
)
from msh.admin.framework.pages import Table
from msh.business_keys.models import BusinessKey, KeyRule

DIRECTIONS = ("outbound", "inbound")
BEGINNING = 3
"""Characters with which a search by the beginning of a key begins."""
SHOWN = 2
"""Keys of a message in a list. Its page has all of them."""


def may_see_keys(request: HttpRequest, direction: str) -> bool:
    names = (f"msh.view_{direction}message", f"msh.view_payload_{direction}message")
    return request.user.has_perms(names)


@more_messages.register
def messages_with_key(request: HttpRequest, direction: str, value: str) -> list[int]:
    """Return row ids of messages of this direction; none for who may not see their payloads. If no
    key is `value`, they are those of keys that begin so: a caller may know only the beginning."""
    if not may_see_keys(request, direction):
        return []
    found = BusinessKey.objects.messages(value, direction)
    if found or len(value) < BEGINNING:
        return found
    return BusinessKey.objects.beginning(value, direction)


@names_searched.register
def names_of_keys(request: HttpRequest) -> set[str]:
    """Return the names of keys; none for who may not see the payloads of any direction."""
    may_see = any(may_see_keys(request, direction) for direction in DIRECTIONS)
    rules = KeyRule.objects.filter(enabled=True)
    return set(rules.values_list("name", flat=True)) if may_see else set()


@keys_shown.register
def keys_in_list(
    request: HttpRequest, direction: str, messages: Sequence[int]
) -> dict[int, list[str]]:
    if not messages or not may_see_keys(request, direction):
        return {}
    found: dict[int, list[str]] = {}
    named = {f"{direction}__in": messages}
    keys = BusinessKey.objects.filter(**named, rule__enabled=True)
    for message, value in keys.values_list(direction, "value"):
        values = found.setdefault(message, [])
        if len(values) < SHOWN and value not in values:
            values.append(value)
    return found


@tables_of_message.register
def keys_of(request: HttpRequest, direction: str, message: int) -> list[Table]:
    """Return the table of a message's keys; none without keys, or if its payloads are not shown."""
    if not may_see_keys(request, direction):
        return []
    keys = BusinessKey.objects.filter(**{direction: message}, rule__enabled=True)
    rows = [(key.rule.name, markup.isolated(key.value)) for key in keys.select_related("rule")]
    return [Table("Business keys", ("Key", "Value"), rows, "")] if rows else []
