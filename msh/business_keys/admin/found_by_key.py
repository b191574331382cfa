"""Messages by business key, for users who may see payloads: a key is a part of one."""

from django.http import HttpRequest

from msh.admin.framework import markup
from msh.admin.framework.found_by import more_messages, names_searched, tables_of_message
from msh.admin.framework.pages import Table
from msh.business_keys.models import BusinessKey, KeyRule

DIRECTIONS = ("outbound", "inbound")


def may_see_keys(request: HttpRequest, direction: str) -> bool:
    names = (f"msh.view_{direction}message", f"msh.view_payload_{direction}message")
    return request.user.has_perms(names)


@more_messages.register
def messages_with_key(request: HttpRequest, direction: str, value: str) -> list[int]:
    """Return row ids of messages of this direction; none for who may not see their payloads."""
    may_see = may_see_keys(request, direction)
    return BusinessKey.objects.messages(value, direction) if may_see else []


@names_searched.register
def names_of_keys(request: HttpRequest) -> set[str]:
    """Return the names of keys; none for who may not see the payloads of any direction."""
    may_see = any(may_see_keys(request, direction) for direction in DIRECTIONS)
    rules = KeyRule.objects.filter(enabled=True)
    return set(rules.values_list("name", flat=True)) if may_see else set()


@tables_of_message.register
def keys_of(request: HttpRequest, direction: str, message: int) -> list[Table]:
    """Return the table of a message's keys; none without keys, or if its payloads are not shown."""
    if not may_see_keys(request, direction):
        return []
    keys = BusinessKey.objects.filter(**{direction: message}, rule__enabled=True)
    rows = [(key.rule.name, markup.isolated(key.value)) for key in keys.select_related("rule")]
    return [Table("Business keys", ("Key", "Value"), rows, "")] if rows else []
