"""Pieces of HTML in lists and tables. Whatever came over the wire is escaped here."""

import re
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from msh.models import Attempt, Direction, History, InboundMessage, OutboundMessage
from msh.protocol.attempt import AttemptOutcome

from .time_format import format_duration, format_time

DASH = "-"

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)
"""Characters that are not seen but change what is: controls, and those that turn the direction."""

STATE_VARIANTS = {
    "suspended": "danger",
    "failed": "danger",
    "transient": "warning",
    "waiting": "info",
    "in_flight": "info",
    "acknowledged": "success",
    "delivered": "success",
    "completed": "success",
    "processing": "info",
    "rejected": "warning",
    "parked": "danger",
    "blocked": "danger",
    "in_doubt": "danger",
    "sent": "success",
    "carried": "success",
    "doubted": "warning",
    "refused": "danger",
}
"""Colour of the badge of a state or an outcome; the word itself is always there."""


def escape_invisible(text: str) -> str:
    """`text` with what is not seen written out, so that no name looks like another one."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def isolated(text: str) -> SafeString | str:
    """Words that came over the wire: whatever their direction, they turn nothing around them."""
    return format_html('<bdi class="msh-id">{}</bdi>', escape_invisible(text)) if text else DASH


def service_and_action(message: OutboundMessage | InboundMessage) -> SafeString:
    """What it is for, as its sender calls it."""
    names = isolated(message.service_interface), isolated(message.action)
    return format_html("{} / {}", *names)


def badge(text: str, variant: str = "") -> SafeString:
    """A label that says a state."""
    return render_to_string("unfold/helpers/label.html", {"text": text, "variant": variant})


def state_badge(row: Any) -> SafeString:
    return badge(row.get_state_display(), STATE_VARIANTS.get(row.state, ""))


def link_to(row: Any, text: Any = None) -> SafeString:
    """A link to the page of a row."""
    shown = escape_invisible(str(row if text is None else text))
    return format_html('<a href="{}" class="text-link"><bdi>{}</bdi></a>', page_url(row), shown)


def page_url(row: Any) -> str:
    """The address of a row's page."""
    return reverse(_page_name(row, "change"), args=[row.pk])


def list_url(model: Any, **query: Any) -> str:
    """The address of a model's list with this query."""
    url = reverse(_page_name(model, "changelist"))
    return f"{url}?{urlencode(query)}" if query else url


def _page_name(model: Any, page: str) -> str:
    meta = model._meta  # noqa: SLF001
    return f"admin:{meta.app_label}_{meta.model_name}_{page}"


def message_link(message_id: str, direction: str) -> SafeString | str:
    """A link that finds a message by its MessageId."""
    if not message_id:
        return DASH
    model = OutboundMessage if direction == Direction.OUT else InboundMessage
    url = list_url(model, q=message_id)
    return format_html('<a href="{}" class="text-link">{}</a>', url, isolated(message_id))


def trace_link(message_id: str) -> SafeString | str:
    """A link to all that is known of a MessageId, stored or refused."""
    if not message_id:
        return DASH
    url = list_url(History, q=message_id)
    return format_html('<a href="{}" class="text-link">{}</a>', url, isolated(message_id))


def time_of(at: datetime | None) -> SafeString | str:
    """A time, with the date if it is not today's; the whole of it on hover."""
    if at is None:
        return DASH
    whole = timezone.localtime(at).isoformat(sep=" ", timespec="milliseconds")
    return format_html(
        '<time datetime="{}" title="{}" class="msh-time">{}</time>',
        at.isoformat(),
        whole,
        format_time(at, timezone.now()),
    )


def age_of(since: datetime | None) -> str:
    return format_duration(since, timezone.now()) if since else DASH


def time_and_age(at: datetime) -> SafeString:
    """A time, and how long ago that is."""
    ago = age_of(at)
    return format_html('<div>{}<div class="msh-note">{} ago</div></div>', time_of(at), ago)


def verbatim(text: str) -> SafeString | str:
    """Words of a peer or a library, as they were."""
    return (
        format_html('<bdi class="msh-verbatim">{}</bdi>', escape_invisible(text)) if text else DASH
    )


def last_answer(attempt: dict[str, str] | None) -> SafeString | str:
    """How the last attempt (its `outcome` and `detail`) ended, verbatim where it failed."""
    if attempt is None:
        return DASH
    if attempt["outcome"] == AttemptOutcome.CARRIED:
        return f"none: carried ({attempt['detail']}), no Ack yet"
    return verbatim(attempt["detail"])


def attempt_cells(attempt: Attempt) -> tuple[Any, ...]:
    """Cells for `ATTEMPT_HEADERS`."""
    variant = STATE_VARIANTS.get(attempt.outcome, "")
    return (
        attempt.number,
        time_of(attempt.claimed_at),
        time_of(attempt.ended_at),
        badge(attempt.outcome, variant) if attempt.outcome else "under way",
        verbatim(attempt.detail),
        "yes" if attempt.body_sent else "no byte of the body left us",
    )


ATTEMPT_HEADERS = ("Attempt", "Claimed", "Ended", "Outcome", "Answer", "Body sent")
