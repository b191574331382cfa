"""HTML for values in lists and tables. What came from a partner is escaped here."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Protocol

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.template.loader import render_to_string
from django.urls import get_script_prefix, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from msh.flows.operations.inspection.causes import OUTCOMES
from msh.flows.operations.inspection.trace import IN_PROGRESS
from msh.models import Attempt, Direction, History, InboundMessage, OutboundMessage
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.reason import Reason
from msh.protocol.severity import Severity
from partners.models import Partner

from .time_format import format_duration, format_time

DASH = "-"

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]"
)
"""Invisible characters that change what is shown: controls, and those that set the direction."""

_UTC = re.compile(r"\b([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}) UTC\b")
"""The format of times that the MSH writes into the detail of an incident."""

_ONE_LINE = '<span class="msh-id msh-one-line" data-copy="{}" title="{}"><bdi>{}</bdi></span>'

STATE_VARIANTS = {
    "suspended": "danger",
    "failed": "danger",
    "transient": "warning",
    "waiting": "info",
    "in_flight": "info",
    "held": "warning",
    "acknowledged": "success",
    "delivered": "success",
    "completed": "success",
    "processing": "info",
    "rejected": "warning",
    "parked": "danger",
    "blocked": "danger",
    "in_doubt": "danger",
    "sent": "success",
    "transmitted": "success",
    "doubted": "warning",
    "refused": "danger",
}
"""Colour of the badge of a state or an outcome; the badge also contains the word."""
SEVERITY_VARIANTS = {
    Severity.CRITICAL: "danger",
    Severity.WARNING: "warning",
    Severity.INFO: "info",
}


def escape_invisible(text: str) -> str:
    """`text` with invisible characters as escapes, so that no name can imitate another one."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def isolated(text: str) -> SafeString | str:
    """Text from a partner: its writing direction has no effect on the text around it."""
    return format_html('<bdi class="msh-id">{}</bdi>', escape_invisible(text)) if text else DASH


def one_line(text: str) -> SafeString | str:
    """An id on one line of a list. Its end is always visible; it is whole on hover and when it is
    copied, for which console.js puts a button beside it."""
    if not text:
        return DASH
    shown = escape_invisible(text)
    return format_html(_ONE_LINE, text, shown, shown)


def in_words(text: str) -> SafeString | str:
    """A sentence, or what somebody typed, that may contain names from a partner."""
    return format_html("<bdi>{}</bdi>", escape_invisible(text)) if text else DASH


def service_and_action(message: OutboundMessage | InboundMessage) -> SafeString:
    names = isolated(message.service_interface), isolated(message.action)
    return format_html("{} / {}", *names)


def number_of(message: OutboundMessage | InboundMessage) -> int | str:
    """The sequence number of a message, in its pair or in its conversation (MessageOrder)."""
    numbers = (message.sequence_number, message.order_number)
    return next((number for number in numbers if number is not None), DASH)


@lru_cache(maxsize=1024, typed=True)  # a safe string is equal to an unsafe one, and of another type
def badge(text: str, variant: str = "") -> SafeString:
    return render_to_string("unfold/helpers/label.html", {"text": text, "variant": variant})


class HasState(Protocol):
    @property
    def state(self) -> str: ...

    def get_state_display(self) -> str: ...


def state_badge(row: HasState) -> SafeString:
    """The name of the state without the explanation that a filter shows behind a colon."""
    name = row.get_state_display().partition(":")[0]
    return badge(name, STATE_VARIANTS.get(row.state, ""))


def link_to(row: Model, text: object = None) -> SafeString:
    """A link to the page of `row`, by default with its name. That of a partner has its settings a
    step farther."""
    shown = escape_invisible(str(row if text is None else text))
    is_partner = isinstance(row, Partner)
    where = url_of_key("partner_page", row.pk) if is_partner else page_url(row)
    return format_html('<a href="{}" class="text-link"><bdi>{}</bdi></a>', where, shown)


def page_url(row: Model) -> str:
    return url_of_key(_page_name(row, "change"), row.pk)


def url_of_key(name: str, key: Any) -> str:
    """`reverse` for a page of one row, which is asked for some hundred times a page."""
    before, _, after = _address(name, get_script_prefix(), "0").rpartition("0")
    return f"{before}{quote(key)}{after}"


@lru_cache(maxsize=1024)
def _address(name: str, prefix: str, *args: str) -> str:
    """`prefix`: the result depends on it."""
    return reverse(name, args=args)


def list_url(model: type[Model], **query: str | int) -> str:
    url = _address(_page_name(model, "changelist"), get_script_prefix())
    return f"{url}?{urlencode(query)}" if query else url


def _page_name(model: Model | type[Model], page: str) -> str:
    meta = model._meta  # noqa: SLF001
    return f"admin:{meta.app_label}_{meta.model_name}_{page}"


def message_link(message_id: str, direction: str) -> SafeString | str:
    """A link that searches for a message by its MessageId."""
    if not message_id:
        return DASH
    model = OutboundMessage if direction == Direction.OUT else InboundMessage
    url = list_url(model, q=message_id)
    return format_html('<a href="{}" class="text-link">{}</a>', url, one_line(message_id))


def trace_link(message_id: str) -> SafeString | str:
    """A link to the history of a MessageId, whether the message was stored or refused."""
    if not message_id:
        return DASH
    url = list_url(History, q=message_id)
    return format_html('<a href="{}" class="text-link">{}</a>', url, one_line(message_id))


def time_of(at: datetime | None) -> SafeString | str:
    """A time, with the date if it is not today; in full on hover, in UTC."""
    if at is None:
        return DASH
    whole = at.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
    return format_html(
        '<time datetime="{}" title="{}" class="msh-time">{}</time>',
        at.isoformat(),
        whole,
        format_time(at, timezone.now()),
    )


def age_of(since: datetime | None) -> str:
    return format_duration(since, timezone.now()) if since else DASH


def ago(at: datetime) -> SafeString:
    """Return the time since then, on one line; the time itself on hover."""
    whole = at.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
    shown = '<time datetime="{}" title="{}" class="msh-time">{} ago</time>'
    return format_html(shown, at.isoformat(), whole, age_of(at))


def time_and_age(at: datetime) -> SafeString:
    ago = age_of(at)
    return format_html('<div>{}<div class="msh-note">{} ago</div></div>', time_of(at), ago)


def verbatim(text: str) -> SafeString | str:
    """Text from a partner or a library, unchanged."""
    return (
        format_html('<bdi class="msh-verbatim">{}</bdi>', escape_invisible(text)) if text else DASH
    )


def local_times(text: str) -> SafeString | str:
    """The detail of an incident, with its times in the time zone of the user."""
    now = timezone.now()

    def local(found: re.Match[str]) -> str:
        try:
            return format_time(datetime.fromisoformat(found[1]).replace(tzinfo=UTC), now)
        except ValueError:  # it looks like a time, in a text from a partner
            return found[0]

    return verbatim(_UTC.sub(local, text))


def ending_of(attempt: Attempt) -> Mapping[str, str]:
    """Return the values of this attempt that `last_answer` takes."""
    return {"outcome": attempt.outcome, "detail": attempt.detail, "reason": attempt.reason}


def last_answer(attempt: Mapping[str, Any] | None) -> SafeString | str:
    """Return how the last attempt (its `outcome`, `detail` and `reason`) ended."""
    if attempt is None:
        return DASH
    if attempt["outcome"] == AttemptOutcome.TRANSMITTED:
        refused = attempt["reason"] in (Reason.NUMBERS, Reason.NOT_ACCEPTED)
        shown = verbatim(attempt["detail"])
        return shown if refused else f"none: transmitted ({attempt['detail']}), no Ack yet"
    return verbatim(attempt["detail"])


def attempt_cells(attempt: Attempt) -> tuple[object, ...]:
    """Cells for `ATTEMPT_HEADERS`."""
    outcome = OUTCOMES[AttemptOutcome(attempt.outcome)] if attempt.outcome else ""
    variant = STATE_VARIANTS.get(attempt.outcome, "")
    return (
        attempt.number,
        time_of(attempt.claimed_at),
        time_of(attempt.ended_at),
        badge(outcome, variant) if outcome else IN_PROGRESS,
        verbatim(attempt.detail),
        "yes" if attempt.body_sent else "no",
    )


ATTEMPT_HEADERS = ("Attempt", "Started", "Ended", "Outcome", "Response", "Body sent")
