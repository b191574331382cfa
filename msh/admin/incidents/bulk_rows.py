"""The rows of a bulk job as its preview lists them, and which of them to leave as they are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from msh.admin.framework import markup
from msh.admin.links.advice import cause_of_link, last_words, with_last_answer
from msh.admin.links.cancelling import notices_by_link
from msh.admin.links.counters import with_queue
from msh.flows.operations.many import stopped_messages
from msh.flows.operations.many.bulk_jobs import OF_MESSAGES
from msh.models import BulkAction, Delivery, MaintenanceWindow, OutboundLink, OutboundMessage
from msh.protocol.lane import OPERATOR
from msh.store.operations.bulk_jobs import with_cancelling
from msh.store.operations.windows import open_windows, quiet_partners


@dataclass(frozen=True, slots=True)
class Row:
    """`why_not`: why it is not ticked at first; empty if it is. `queued`: messages that wait."""

    key: int
    text: str
    why_not: str = ""
    queued: int = 0


def kept_back() -> Collection[int]:
    """Partners that are suspended for a while on purpose: resume each of them only by itself."""
    suspended: Any = with_cancelling(OutboundLink.objects.suspended())
    cancelling = suspended.filter(cancelling=True).values_list("partner", flat=True)
    return {*cancelling, *quiet_partners(timezone.now())}


def listed(action: str, found: Sequence[Any], *, spare_held: bool) -> Sequence[Row]:
    """`spare_held`: partners that an operator has suspended are not ticked at first."""
    if action in OF_MESSAGES:
        left_out = stopped_messages.why_not_all(found) if action == BulkAction.SUBMIT_AGAIN else {}
        return [Row(row.pk, _message(row), left_out.get(row.pk, "")) for row in found]
    if action != BulkAction.RESUME:
        return [Row(row.pk, _delivery(row)) for row in found]
    links = OutboundLink.objects.filter(pk__in=[link.pk for link in found])
    answered: Any = with_queue(with_cancelling(with_last_answer(links.select_related("partner"))))
    rows, windows = list(answered.order_by("suspended_since", "pk")), _windows()
    notices = notices_by_link([link for link in rows if link.cancelling])
    return [
        Row(
            link.partner_id,
            _link(link),
            _why_not(
                notices.get(link.pk, ()),
                windows.get(link.partner_id),
                is_held=spare_held and link.suspended_for == OPERATOR,
            ),
            link.queued,
        )
        for link in rows
    ]


def first_of(rows: Sequence[Row]) -> Row | None:
    """The one to try before the others: the fewest messages follow it. None if it is the only."""
    ticked = [row for row in rows if not row.why_not]
    return min(ticked, key=lambda row: row.queued) if len(ticked) > 1 else None


def _windows() -> Mapping[int, MaintenanceWindow]:
    """By partner, the one of now."""
    now = timezone.now()
    return {one.partner_id: one for one in open_windows() if one.window.keeps_quiet(now)}


def _why_not(
    notices: Sequence[SafeString], window: MaintenanceWindow | None, *, is_held: bool
) -> str:
    """`notices`: of what cancels its queue. `window`: the one of now."""
    reasons = [*notices]
    if is_held and not window:
        reasons.append(format_html("{}", "An operator suspended it on purpose."))
    if window:
        until = markup.time_of(window.ends_at)
        reasons.append(format_html("Maintenance until {}: end its window first.", until))
    return format_html_join(" ", "{}", ((one,) for one in reasons))


def _delivery(row: Delivery) -> str:
    return format_html(
        "{} from {}: {}, {}: {}",
        markup.isolated(str(row)),
        markup.isolated(row.message.link.partner.name),
        row.get_state_display(),
        markup.age_of(row.ended_at),
        markup.verbatim(row.detail),
    )


def _message(row: OutboundMessage) -> str:
    what = f"{row.service_interface} / {row.action}"
    ended = row.completed_at
    since = format_html("failed {}", markup.ago(ended)) if ended else "held"
    return format_html(
        "{} to {}: {}, {}, submitted {}",
        markup.link_to(row),
        markup.isolated(row.link.partner.name),
        markup.isolated(what),
        since,
        markup.time_of(row.submitted_at),
    )


def _link(link: Any) -> str:
    """The name of a partner, what waits for it, and why it is suspended."""
    cause = cause_of_link(link)
    oldest = format_html(", the oldest {}", markup.age_of(link.oldest)) if link.oldest else ""
    return format_html(
        "{}: {} queued{}. {} since {}, {}: {}",
        markup.isolated(link.partner.name),
        link.queued,
        oldest,
        cause.title if cause else link.suspended_for,
        markup.time_of(link.suspended_since),
        markup.age_of(link.suspended_since),
        markup.verbatim(last_words(link)),
    )
