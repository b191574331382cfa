"""Which rows a bulk job is for: by time, by cause, and one by one."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django import forms
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from msh.admin.framework.actions import REASON_LIMIT
from msh.admin.framework.time_zone import LocalTimeField, written
from msh.admin.links.advice import cause_name, with_last_answer
from msh.flows.operations.many import bulk_jobs, stopped_messages
from msh.flows.operations.many.bulk_jobs import Limits
from msh.models import EVER, BulkAction, Consumer, OutboundLink, OutboundMessage

from .bulk_rows import first_of, kept_back, listed

CONSEQUENCES = {
    BulkAction.RESUME: "Every selected partner, if it is still suspended, is resumed, one after"
    " the other. Its message in flight is sent again, with the same bytes and number and all"
    " retries, then its queue in order. Its open incidents are resolved with your reason. Partners"
    " with sequence numbers out of sync are suspended again: resynchronise them one by one.",
    BulkAction.RUN_AGAIN: "Every selected delivery, if it is still parked or blocked, is run"
    " again, one after the other, with all retries. If a consumer already has the message, only"
    " the Idempotency-Key prevents double processing. Messages behind a parked one have"
    " been delivered already: it is delivered out of order. Deliveries in doubt are not included.",
    BulkAction.REPLAY: "Every selected message, received since the given time and completed by the"
    " consumer, is delivered to it once more, as a replay: a delivery of its own, marked as such,"
    " with another Idempotency-Key. The replays of a pair, or of a conversation in order, follow"
    " each other in the order of acceptance; messages that arrive are delivered meanwhile. The"
    " first deliveries stay as they are.",
    BulkAction.SUBMIT_AGAIN: "Every selected message, if it has still failed and was not submitted"
    " again meanwhile, is submitted again, one after the other, oldest first: a new message with a"
    " new MessageId and the same payloads, at the end of the queue to its partner. The pages of"
    " both link to each other. If the partner processed the failed message after all, it gets the"
    " same content twice.",
    BulkAction.RESUME_MESSAGES: "Every selected message, if it is still held or stops its"
    " conversation, is sent again with the same bytes and MessageId, and all its retries. A partner"
    " that has it already discards the duplicate and acknowledges it again.",
}
BY_TIME = [(action.value, action.label) for action in CONSEQUENCES]
"""To cancel the queue of a link, open the page of the link."""
LISTED = 500
"""Rows that can be chosen one by one; of more, only all."""
USED_BY = {
    "spare_held": (BulkAction.RESUME,),
    "consumer": (BulkAction.REPLAY,),
    "partner": (BulkAction.REPLAY, *bulk_jobs.OF_MESSAGES),
    "conversation": bulk_jobs.OF_MESSAGES,
}
"""Fields that only these actions use."""
ELSEWHERE = {
    "cause": "Only partners that are suspended for one cause, chosen on the dashboard.",
    "incident": "Only messages that failed for one incident, chosen on its page.",
    "chosen": "Only messages that were selected in the list.",
}
"""By hidden field."""
TRIED = "One of several is tried first"
"""The reason, if none is typed."""
LEFT_OUT = {
    BulkAction.RESUME: "in maintenance or with a queue that is being cancelled",
    BulkAction.SUBMIT_AGAIN: "of which a copy was submitted already, which stand for a message that"
    " the partner has, or which stop their conversation",
}
"""By action, why rows are left out of a job for all."""
PERIODS = {"3600": "the last hour", "86400": "the last 24 hours", "0": "any time"}
"""Seconds; 0 for any time."""


class ChoiceForm(forms.Form):
    """The action and its rows. Times are in the time zone of the console. `period`: instead of
    `since`, so many seconds; `cause`: partners suspended for it, as the dashboard names it.
    `incident`: messages that failed for it; `chosen`: row ids, chosen in a list."""

    action = forms.ChoiceField(choices=BY_TIME, widget=UnfoldAdminSelectWidget())
    since = LocalTimeField(required=False, help_text="Empty: any time.")
    spare_held = forms.BooleanField(
        label="Leave out partners suspended by an operator",
        required=False,
        initial=True,
        widget=UnfoldBooleanWidget(),
    )
    consumer = forms.ModelChoiceField(
        Consumer.objects.all(),
        label="Consumer (replays only)",
        required=False,
        empty_label="-",
        widget=UnfoldAdminSelectWidget(),
    )
    partner = forms.CharField(
        label="Partner",
        required=False,
        max_length=63,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Its complete name. Empty: any partner.",
    )
    conversation = forms.CharField(
        label="Conversation",
        required=False,
        max_length=255,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Its complete ConversationId. Empty: any conversation.",
    )
    incident = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)
    chosen = forms.CharField(required=False, widget=forms.HiddenInput)
    cause = forms.CharField(required=False, max_length=100, widget=forms.HiddenInput)
    period = forms.IntegerField(
        required=False, min_value=0, max_value=10**7, widget=forms.HiddenInput
    )

    def __init__(self, *data: Any, **options: Any) -> None:
        super().__init__(*data, **options)
        self.fields["since"].label = f"Since ({timezone.get_current_timezone_name()})"

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        if (period := cleaned.get("period")) is not None:
            since = timezone.now() - timedelta(seconds=period)
            cleaned["since"] = since.replace(microsecond=0) if period else EVER
        elif "since" in cleaned:
            cleaned["since"] = cleaned["since"] or EVER
        if cleaned.get("action") == BulkAction.REPLAY and not cleaned.get("consumer"):
            self.add_error("consumer", "Select the consumer that gets the messages again.")
        return cleaned

    def limits(self) -> Limits:
        chosen, consumer = self.cleaned_data, self.cleaned_data["consumer"]
        return {
            "spare_held": chosen["spare_held"],
            "only": self.only(),
            "consumer": consumer.pk if consumer else None,
            "partner": chosen["partner"],
            "conversation": chosen["conversation"],
            "incident": chosen["incident"],
        }

    def limits_of_all(self) -> Limits:
        """Of more rows than can be ticked: those to be kept back are left out."""
        if self.cleaned_data["action"] == BulkAction.SUBMIT_AGAIN:
            return {**self.limits(), "spare_copied": True}
        if self.cleaned_data["action"] != BulkAction.RESUME:
            return self.limits()
        return {**self.limits(), "but_for": kept_back()}

    def shown(self) -> Sequence[forms.BoundField]:
        """The fields that the action uses; none if the rows were chosen elsewhere."""
        if self.chosen_elsewhere():
            return ()
        action = self["action"].value() or BulkAction.RESUME
        fields = self.visible_fields()
        return [field for field in fields if action in USED_BY.get(field.name, [action])]

    def chosen_elsewhere(self) -> str:
        """Where the rows were chosen, as a sentence; empty if here."""
        return next((said for name, said in ELSEWHERE.items() if self[name].value()), "")

    def spares_unseen(self) -> bool:
        """An action that does not use `spare_held` sends it ticked, for the action chosen next:
        a box that is not sent is one that is not ticked."""
        return not any(field.name == "spare_held" for field in self.shown())

    def only(self) -> Collection[int] | None:
        """The keys that `cause` leaves, or those chosen in a list; None for all."""
        if self.cleaned_data["chosen"]:
            return [int(key) for key in self.cleaned_data["chosen"].split(",") if key.isdecimal()]
        if not self.cleaned_data["cause"] or self.cleaned_data["action"] != BulkAction.RESUME:
            return None
        suspended = with_last_answer(OutboundLink.objects.suspended())
        wanted = self.cleaned_data["cause"]
        return [link.partner_id for link in suspended if cause_name(link) == wanted]


class ConfirmationForm(ChoiceForm):
    """The same, and the rows that the operator has seen, or those that are ticked."""

    seen = forms.CharField()
    confirmation = forms.UUIDField()
    reason = forms.CharField(max_length=REASON_LIMIT)


def _gone(form: ChoiceForm, listed: Collection[int]) -> Sequence[str]:
    """Of messages that were chosen in a list, those that do not match any more, and why."""
    gone = set(form.only() or ()) - set(listed) if form.cleaned_data["chosen"] else set()
    found = list(OutboundMessage.objects.filter(pk__in=gone).order_by("pk")[:LISTED])
    why_not = stopped_messages.why_not_all(found)
    return [f"{one}: {why_not[one.pk]}" for one in found if one.pk in why_not]


def preview(form: ChoiceForm) -> dict[str, object]:
    """The number of rows and the first of them, each with its key."""
    chosen = form.cleaned_data
    action, since = chosen["action"], chosen["since"]
    limits = form.limits()
    matching = counted = bulk_jobs.count(action, since, **limits)
    if many := matching > LISTED:
        limits = form.limits_of_all()
        counted = bulk_jobs.count(action, since, **limits)
    rows = listed(action, bulk_jobs.first(action, since, LISTED, **limits))
    return {
        "counted": counted,
        "left_out": matching - counted,
        "why_left_out": LEFT_OUT.get(action, ""),
        "gone": _gone(form, [row.key for row in rows]),
        "seen": bulk_jobs.seen(action, since, **limits),
        "confirmation": uuid4(),
        "rows": rows,
        "first": first_of(rows) if action == BulkAction.RESUME else None,
        "many": many,
        "others": counted - len(rows),
        "since": "" if since == EVER else written(since),
        "consequence": CONSEQUENCES[BulkAction(action)],
        "what": BulkAction(action).label,
    }
