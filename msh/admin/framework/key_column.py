"""The first column of lists of messages: what people call a message by."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.http import HttpRequest
from django.utils.html import format_html_join
from unfold.admin import ModelAdmin
from unfold.decorators import display

from . import markup
from .found_by import key_names, keys_of_messages


class KeyColumn(ModelAdmin):
    """A list of messages, or of rows about one message each, with a column for their business keys
    if there are any."""

    direction: ClassVar[str]
    """ "outbound" or "inbound" """

    def get_list_display(self, request: HttpRequest) -> Sequence[Any]:
        return (*(("keys",) if key_names(request) else ()), *self.list_display)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Read the keys of all messages of the page at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = list(listed.result_list)
        messages = {row: self.message_key(row) for row in listed.result_list}
        keys = keys_of_messages(request, self.direction, list(messages.values()))
        for row, message in messages.items():
            row.keys_shown = keys.get(message, ())
        return listed

    def message_key(self, row: Any) -> int:
        """The row id of its message."""
        key: int = row.pk
        return key

    @display(description="Business key")
    def keys(self, row: Any) -> str:
        shown = ((markup.one_line(one),) for one in row.keys_shown)
        return format_html_join(" ", "{}", shown) or markup.DASH
