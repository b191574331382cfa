"""Which rows a bulk job is for: those that a list shows by its own filters and to which the action
can be done, but for those that are not ticked."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Model, QuerySet
from django.http import HttpRequest, QueryDict

from msh.admin.framework import markup
from msh.admin.framework.actions import REASON_LIMIT
from msh.admin.framework.bulk import bulk_url, may_begin
from msh.flows.errors import NotPossible
from msh.flows.operations.many import bulk_jobs, stopped_messages
from msh.models import BulkAction, Delivery, OutboundLink, OutboundMessage
from msh.protocol.kinds import DeliveryState
from msh.protocol.lane import OPERATOR

from .bulk_rows import first_of, kept_back, listed

CONSEQUENCES = {
    BulkAction.RESUME: "Every selected partner, if it is still suspended, is resumed, one after"
    " the other. Its message in flight is sent again, with the same bytes and number and all"
    " retries, then its queue in order. Its open incidents are resolved with your reason. Partners"
    " with sequence numbers out of sync are suspended again: resynchronise them one by one.",
    BulkAction.RUN_AGAIN: "Every selected delivery, if it is still in this state, is run"
    " again, one after the other, with all retries. If a consumer already has the message, only"
    " the Idempotency-Key prevents double processing. Messages behind a parked one have"
    " been delivered already: it is delivered out of order. Deliveries in doubt are not included,"
    " and those that were rejected only if the list is filtered by that state.",
    BulkAction.REPLAY: "Every selected message, if its consumer has completed it, is delivered"
    " once more, as a replay: a delivery of its own, marked as such, with another Idempotency-Key."
    " The replays of a pair, or of a conversation in order, follow each other in the order of"
    " acceptance; messages that arrive are delivered meanwhile. The first deliveries stay as they"
    " are.",
    BulkAction.SUBMIT_AGAIN: "Every selected message, if it has still failed and was not submitted"
    " again meanwhile, is submitted again, one after the other, oldest first: a new message with a"
    " new MessageId and the same payloads, at the end of the queue to its partner. The pages of"
    " both link to each other. If the partner processed the failed message after all, it gets the"
    " same content twice.",
    BulkAction.RESUME_MESSAGES: "Every selected message, if it is still held or stops its"
    " conversation, is sent again with the same bytes and MessageId, and all its retries. A partner"
    " that has it already discards the duplicate and acknowledges it again.",
}
LISTS: Mapping[str, type[Model]] = {
    BulkAction.RESUME: OutboundLink,
    BulkAction.RUN_AGAIN: Delivery,
    BulkAction.REPLAY: Delivery,
    BulkAction.SUBMIT_AGAIN: OutboundMessage,
    BulkAction.RESUME_MESSAGES: OutboundMessage,
}
"""By action, whose list has its rows. To cancel the queue of a link, open the page of the link."""
LISTED = 500
"""Rows that can be chosen one by one; of more, only all."""
LEFT_OUT = {
    BulkAction.RESUME: "suspended by an operator, in maintenance, or with a queue that is being"
    " cancelled",
    BulkAction.SUBMIT_AGAIN: "of which a copy was submitted already, which stand for a message that"
    " the partner has, or which stop their conversation",
}
"""By action, why rows are left out of a job for all."""


class ConfirmationForm(forms.Form):
    """The rows that the operator has seen, and why."""

    seen = forms.CharField()
    confirmation = forms.UUIDField()
    reason = forms.CharField(max_length=REASON_LIMIT)


def ways(request: HttpRequest) -> Sequence[tuple[str, str, str]]:
    """Return the actions that this user may do to many rows: name, address of the job for all, and
    of the list."""
    return [
        (action.label, bulk_url(request, action), markup.list_url(LISTS[action]))
        for action in CONSEQUENCES
        if may_begin(request, action)
    ]


def filters_of(request: HttpRequest) -> QueryDict:
    """Return the filters of the list: the address without the action."""
    filters = request.GET.copy()
    filters.pop("action", None)
    return filters


def chosen(request: HttpRequest, action: str) -> QuerySet[Any]:
    """Raises NotPossible for filters that the list does not have."""
    page: Any = admin.site.get_model_admin(LISTS[action])
    asked = copy(request)
    asked.GET = filters_of(request)  # type: ignore[assignment]
    try:
        shown = page.get_changelist_instance(asked).queryset
    except IncorrectLookupParameters:
        raise NotPossible("The list does not have these filters.") from None
    rejected = asked.GET.get("state__exact") == DeliveryState.REJECTED
    rows = bulk_jobs.rows_of(action, rejected=rejected)
    return rows.filter(pk__in=shown.order_by().values("pk"))


def _spares_held(request: HttpRequest) -> bool:
    """Whether partners that an operator has suspended are left alone: not if their cause was
    chosen."""
    return "cause" not in request.GET


def all_of(request: HttpRequest, action: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the choice for more rows than can be ticked; rows to be kept back are left out."""
    if action == BulkAction.SUBMIT_AGAIN:
        return stopped_messages.without_copies(rows)
    if action == BulkAction.RESUME:
        rows = rows.exclude(partner__in=kept_back())
        return rows.exclude(suspended_for=OPERATOR) if _spares_held(request) else rows
    return rows


def _gone(request: HttpRequest, rows: Collection[int]) -> Sequence[str]:
    """Return the selected messages that do not match any more, and why."""
    selected = request.GET.get("id__in", "").split(",")
    gone = {int(key) for key in selected if key.isdecimal()} - set(rows)
    found = list(OutboundMessage.objects.filter(pk__in=gone).order_by("pk")[:LISTED])
    why_not = stopped_messages.why_not_all(found)
    return [f"{one}: {why_not[one.pk]}" for one in found if one.pk in why_not]


def preview(request: HttpRequest, action: str, matching: QuerySet[Any]) -> dict[str, object]:
    """The number of rows and the first of them, each with its key."""
    count = matching.count()
    many = count > LISTED
    chosen_rows = all_of(request, action, matching) if many else matching
    counted = chosen_rows.count() if many else count
    rows = listed(action, list(chosen_rows[:LISTED]), spare_held=_spares_held(request))
    return {
        "counted": counted,
        "left_out": count - counted,
        "why_left_out": LEFT_OUT.get(BulkAction(action), ""),
        "gone": _gone(request, [row.key for row in rows]),
        "seen": bulk_jobs.seen(action, chosen_rows),
        "confirmation": uuid4(),
        "rows": rows,
        "first": first_of(rows) if action == BulkAction.RESUME else None,
        "many": many,
        "others": counted - len(rows),
        "consequence": CONSEQUENCES[BulkAction(action)],
        "what": BulkAction(action).label,
        "filters": filters_of(request).urlencode(),
        "list": f"{markup.list_url(LISTS[action])}?{filters_of(request).urlencode()}",
    }
