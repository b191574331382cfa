"""By what else than their ids messages are found: what features add to the searches."""

from collections.abc import Callable, Collection, Mapping, Sequence

from django.http import HttpRequest

from msh.extension import ExtensionPoint
from msh.models import InboundMessage, OutboundMessage

from .pages import Table

Keys = Mapping[int, Sequence[str]]
more_messages: ExtensionPoint[Callable[[HttpRequest, str, str], Sequence[int]]] = ExtensionPoint()
"""Given "outbound" or "inbound" and a term: row ids of messages that the user may find by it."""
names_searched: ExtensionPoint[Callable[[HttpRequest], Collection[str]]] = ExtensionPoint()
"""What the page of the search calls it."""
tables_of_message: ExtensionPoint[Callable[[HttpRequest, str, int], list[Table]]] = ExtensionPoint()
"""Given a direction and a row id: by what this message is found, for its page."""


keys_shown: ExtensionPoint[Callable[[HttpRequest, str, Sequence[int]], Keys]] = ExtensionPoint()
"""Given a direction and row ids: what people call these messages, for their lists."""


def key_names(request: HttpRequest) -> set[str]:
    return {name for names in names_searched for name in names(request)}


def keys_of_messages(request: HttpRequest, direction: str, messages: Sequence[int]) -> Keys:
    """Values by row id. None of what this user may not see."""
    found: dict[int, list[str]] = {}
    for keys in keys_shown:
        for message, values in keys(request, direction, messages).items():
            found.setdefault(message, []).extend(values)
    return found


def found_messages(request: HttpRequest, direction: str, term: str) -> list[int]:
    return [key for find in more_messages for key in find(request, direction, term)]


def found_message_ids(request: HttpRequest, term: str) -> Sequence[str]:
    """MessageIds of messages of both directions."""
    out = OutboundMessage.objects.filter(pk__in=found_messages(request, "outbound", term))
    into = InboundMessage.objects.filter(pk__in=found_messages(request, "inbound", term))
    return [*out.values_list("message_id", flat=True), *into.values_list("message_id", flat=True)]
