"""The irreversible actions on a link to a partner: cancel with a verdict, reset (D17, D18)."""

from uuid import uuid4

from django import forms
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from unfold.widgets import UnfoldAdminRadioSelectWidget

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, Details, ReasonForm
from msh.admin.framework.time_format import format_time
from msh.admin.messages.message_actions import VERDICTS, verdicts_on
from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions
from msh.flows.operations.many.cancel_queue import has_queue, kinds_of, queue_of
from msh.models import OutboundLink
from msh.protocol.kinds import Verdict
from msh.protocol.lane import LaneState
from msh.store.history import Actor

from .outbound_actions import LinkDialog

MOST_KINDS = 10
"""Pairs of ServiceInterface and Action that are named."""


class VerdictForm(ReasonForm):
    field_order = ("verdict", "reason")

    verdict = forms.TypedChoiceField(
        choices=VERDICTS, coerce=Verdict, widget=UnfoldAdminRadioSelectWidget()
    )


class Cancel(LinkDialog):
    action = link_actions.CANCEL_IN_FLIGHT
    icon = "block"
    dismiss = "Keep message"
    form = VerdictForm

    def fit(self, form: ReasonForm, row: OutboundLink) -> ReasonForm:
        if row.in_flight is not None:
            form.fields["verdict"].choices = verdicts_on(row.in_flight)  # type: ignore[attr-defined]
        return form

    def consequence(self, row: OutboundLink) -> str:
        flying = row.lane.flying
        return (
            f"Message {flying.sequence_number} to {row.partner} is not sent again, and its sender"
            " is notified of your verdict. Ask the partner which verdict is true."
        )

    def act(self, row: OutboundLink, actor: Actor, form: ReasonForm) -> str:
        """Cancels the message that the dialog named, not one that is in flight since then."""
        if row.in_flight is None:
            raise NotPossible(f"No message is in flight to {row.partner}.")
        self.action.flow(row.in_flight, form.cleaned_data["verdict"], actor)
        return self.done(row)


class ResetSequence(LinkDialog):
    action = link_actions.RESET_SEQUENCE
    icon = "restart_alt"

    def version(self, row: OutboundLink) -> str:
        return f"{super().version(row)}, next number {row.next_number}"

    def consequence(self, row: OutboundLink) -> str:
        return (
            f"The next message to {row.partner} gets number 1 instead of {row.next_number}. This"
            " changes our side only: the partner must accept number 1 as a reset. Ask the partner"
            " first, or resynchronise instead."
        )


class QueueForm(ReasonForm):
    """`last`: row id of the last message that the dialog counted."""

    last = forms.IntegerField(widget=forms.HiddenInput, min_value=1, max_value=2**63 - 1)
    confirmation = forms.UUIDField(widget=forms.HiddenInput)


class CancelQueue(ActionDialog[OutboundLink]):
    action = link_actions.CANCEL_QUEUE
    icon = "delete_sweep"
    dismiss = "Keep queue"
    form = QueueForm

    def why_not(self, row: OutboundLink) -> str:
        return "" if has_queue(row) else f"nothing is queued to {row.partner}."

    def consequence(self, row: OutboundLink) -> str:
        queue, now = queue_of(row), timezone.now()
        between = ""
        if queue.oldest and queue.newest:
            between = (
                f", the oldest since {format_time(queue.oldest, now)}, the newest since"
                f" {format_time(queue.newest, now)}"
            )
        part = f" {queue.later} later ones stay in the queue." if queue.later else ""
        return format_html(
            "{} messages to {} ({}{}) are cancelled one after the other by a bulk job, oldest"
            " first: {}.{} None of them has a number or was ever sent; their senders are notified."
            " {} Messages that are submitted from now on are not cancelled. {} The partner does not"
            " have to do anything.",
            queue.count,
            markup.isolated(str(row.partner)),
            filesizeformat(queue.size),
            between,
            _kinds(row, queue.last),
            part,
            _meanwhile(row),
            _in_flight(row),
        )

    def context(self, row: OutboundLink, query: QueryDict) -> Details:
        return Details(initial={"last": queue_of(row).last, "confirmation": uuid4()})

    def act(self, row: OutboundLink, actor: Actor, form: ReasonForm) -> str:
        job = self.action.flow(row, actor, **form.action_fields)
        link = markup.link_to(job, f"Bulk job {job.pk}")
        text = "{} cancels {} messages. Its page shows what became of each."
        return format_html(text, link, job.total)


def _kinds(link: OutboundLink, last: int) -> str:
    kinds = kinds_of(link, last)
    shown = [(count, service, action) for service, action, count in kinds[:MOST_KINDS]]
    text = format_html_join(", ", "{} x {} / {}", shown)
    others = sum(count for _, _, count in kinds[MOST_KINDS:])
    return format_html("{}, {} of other kinds", text, others) if others else text


def _meanwhile(link: OutboundLink) -> str:
    if link.state == LaneState.SUSPENDED:
        return "The link is suspended and stays so: nothing is sent meanwhile."
    return "The link stays active: what it sends before the job reaches it is not cancelled."


def _in_flight(link: OutboundLink) -> str:
    """With its own dialog, if it may be cancelled."""
    if link.in_flight is None or CANCEL.refusal(link):
        return "A message in flight is not cancelled."
    return format_html(
        'Message {} is in flight and stays: <a href="{}" class="text-link">cancel it, too</a>, with'
        " a verdict.",
        link.in_flight.sequence_number,
        reverse("admin:msh_outboundlink_cancel", args=[link.pk]),
    )


CANCEL = Cancel()
ACTIONS = (CANCEL, CancelQueue(), ResetSequence())
