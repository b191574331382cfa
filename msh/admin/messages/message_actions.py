"""Actions on an outbound message: cancel it, submit it again, submit a corrected copy."""

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,  # a plain one has unfold's script write into other fields
    UnfoldAdminRadioSelectWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import actions, cancel, operator_submissions
from msh.flows.operations.inspection.copies import twice_if_sent
from msh.flows.operations.inspection.flights import flight_of
from msh.flows.operations.operator_submissions import Correction
from msh.models import OutboundMessage, OutboundState
from msh.protocol import sequence
from msh.protocol.kinds import Verdict
from msh.store.history import Actor

_PAYLOAD = "payload_"
_NAMES = {
    Verdict.RECEIVED: "Received",
    Verdict.NOT_RECEIVED: "Not received",
    Verdict.UNKNOWN: "Unknown",
}
_PROOF = (
    "This needs proof that no byte of it was sent, or the confirmation of the partner's MSH, which"
    " is asked"
)
VERDICTS = [(verdict.value, name) for verdict, name in _NAMES.items()]


def verdicts_on(message: OutboundMessage) -> list[tuple[str, str]]:
    """The verdicts that are possible, with their consequence. It cannot be proven that a mail was
    not received (D18)."""
    effects = _effects_on_flight() if message.flies else _effects_on(message)
    if message.link.partner.is_reached_by_mail:
        del effects[Verdict.NOT_RECEIVED]
    if message.state == OutboundState.IN_FLIGHT and message.link.in_flight_id == message.pk:
        lane = message.link.lane
        effects = {one: text for one, text in effects.items() if cancel.is_possible(lane, one)}
    shown = "<strong>{}:</strong> {}."
    return [(one.value, format_html(shown, _NAMES[one], text)) for one, text in effects.items()]


def _effects_on(message: OutboundMessage) -> dict[Verdict, str]:
    number = message.sequence_number or sequence.FIRST
    return {
        Verdict.RECEIVED: "the partner has it. The next message gets number"
        f" {sequence.following(number)}",
        Verdict.NOT_RECEIVED: "the partner does not have it. The next message gets number"
        f" {number} again. {_PROOF}",
        Verdict.UNKNOWN: "nobody knows. The next message gets number 1, and the cancelled one may"
        " still arrive. The partner must agree to start again at 1",
    }


def _effects_on_flight() -> dict[Verdict, str]:
    return {
        Verdict.RECEIVED: "the partner has it",
        Verdict.NOT_RECEIVED: f"the partner does not have it. {_PROOF}",
        Verdict.UNKNOWN: "the partner may have it, or may get it later",
    }


def _may_have_been_sent(row: OutboundMessage) -> bool:
    """Whether a copy of a message with a flight was claimed, so that a verdict is needed. A failed
    one may be cancelled if it stops its conversation."""
    if row.state == OutboundState.FAILED:
        return row.holds_up
    flight = flight_of(row)
    return flight is not None and row.state == OutboundState.FLYING and flight.attempt > 0


class Cancel(ActionDialog[OutboundMessage]):
    """For queued messages, and those that fly. One in flight on a link in the order of its numbers
    is cancelled on the page of the link."""

    action = actions.CANCEL
    icon = "block"
    dismiss = "Keep message"

    def why_not(self, row: OutboundMessage) -> str:
        if row.state in (OutboundState.QUEUED, OutboundState.FLYING) or _may_have_been_sent(row):
            return ""
        return f"the message is {row.get_state_display()}, not queued."

    def consequence(self, row: OutboundMessage) -> str:
        if row.state == OutboundState.QUEUED:
            return super().consequence(row)
        if not _may_have_been_sent(row):
            return f"{_NEVER_SENT}Its sender is notified. The partner does not have to do anything."
        return (
            f"No more copies of the message are sent to {row.link.partner}, and its sender is"
            " notified of your verdict. Ask the partner which verdict is true. Other messages are"
            " not affected."
        )

    def version(self, row: OutboundMessage) -> str:
        return "sent" if _may_have_been_sent(row) else ""

    def fit(self, form: ReasonForm, row: OutboundMessage) -> ReasonForm:
        if _may_have_been_sent(row):
            form.fields["verdict"] = _verdict_field("Verdict", row)
        return form


def _verdict_field(label: str, row: OutboundMessage) -> forms.TypedChoiceField:
    widget = UnfoldAdminRadioSelectWidget()
    choices = verdicts_on(row)
    return forms.TypedChoiceField(label=label, choices=choices, coerce=Verdict, widget=widget)


def _check_size(content: "UploadedFile[bytes]") -> None:
    if (content.size or 0) > settings.MSH_MESSAGE_LIMIT:
        limit = filesizeformat(settings.MSH_MESSAGE_LIMIT)
        raise forms.ValidationError(f"The file is larger than the limit of a message, {limit}.")


_NEVER_SENT = "The message has never been sent and is not sent. "
_HAS_FAILED = "The message has failed and stays so. "
_CANCELS = (
    "The message stops its conversation, so it is cancelled with your verdict; its number is given"
    " up, and the conversation must be restarted. To send it with its number instead, resume it. "
)
_WITH_VERDICT = (
    "The message is cancelled with your verdict. If the partner has it, or may have it, agree with"
    " the partner how to treat the copy. "
)


class SubmitAgain(ActionDialog[OutboundMessage]):
    """The original stays as it was submitted; the copy is a new message that refers to it."""

    action = actions.SUBMIT_AGAIN
    icon = "forward"
    dismiss = "Submit nothing"

    def why_not(self, row: OutboundMessage) -> str:
        return operator_submissions.why_not_again(row)

    def consequence(self, row: OutboundMessage) -> str:
        ends = _CANCELS if row.holds_up else ""
        if row.state == OutboundState.FLYING:
            ends = _WITH_VERDICT
        return (
            f"{ends}A new message with a new MessageId and the same payloads, ConversationId and"
            f" headers is added to the end of the queue to {row.link.partner}. The pages of both"
            f" messages link to each other.{twice_if_sent(row)}"
        )

    def version(self, row: OutboundMessage) -> str:
        return str(row.state)

    def is_recommended(self, row: OutboundMessage) -> bool:
        """To resume the message is better where that is possible, and nothing is where the partner
        has it."""
        if row.state != OutboundState.FAILED or row.holds_up:
            return False
        return not twice_if_sent(row, sure=True)

    def fit(self, form: ReasonForm, row: OutboundMessage) -> ReasonForm:
        if operator_submissions.is_cancelled_first(row):
            form.fields["verdict"] = _verdict_field("Verdict on this message", row)
        return form

    def act(self, row: OutboundMessage, actor: Actor, form: ReasonForm) -> str:
        copy = self.action.flow(row, actor, form.cleaned_data.get("verdict"))
        return format_html("Message {} was submitted again as {}.", row, markup.link_to(copy))


class CorrectionForm(ReasonForm):
    """The changes in the copy. What is left blank stays as it is."""

    service_interface = forms.CharField(
        label="ServiceInterface", max_length=255, widget=UnfoldAdminTextInputWidget
    )
    action = forms.CharField(label="Action", max_length=255, widget=UnfoldAdminTextInputWidget)


class Correct(ActionDialog[OutboundMessage]):
    """The original stays as it was submitted; the copy is a new message that refers to it."""

    action = actions.CORRECT
    icon = "edit_document"
    form = CorrectionForm
    dismiss = "Keep message"

    def why_not(self, row: OutboundMessage) -> str:
        return operator_submissions.why_not_corrected(row)

    def consequence(self, row: OutboundMessage) -> str:
        ends = {
            OutboundState.QUEUED: _NEVER_SENT,
            OutboundState.IN_FLIGHT: _WITH_VERDICT,
            OutboundState.FLYING: _WITH_VERDICT if _may_have_been_sent(row) else _NEVER_SENT,
            OutboundState.FAILED: _CANCELS if row.holds_up else _HAS_FAILED,
        }.get(OutboundState(row.state), "The message is already cancelled. ")
        return (
            f"{ends}A copy with a new MessageId, the same ConversationId and your changes is added"
            f" to the end of the queue to {row.link.partner}. The pages of both messages link to"
            f" each other.{twice_if_sent(row)}"
        )

    def version(self, row: OutboundMessage) -> str:
        return "sent" if _may_have_been_sent(row) else str(row.state)

    def fit(self, form: ReasonForm, row: OutboundMessage) -> ReasonForm:
        purpose = {"service_interface": row.service_interface, "action": row.action}
        form.initial = {**purpose, **form.initial}
        if row.state == OutboundState.IN_FLIGHT or _may_have_been_sent(row):
            form.fields["verdict"] = _verdict_field("Verdict on the message in flight", row)
        for part in row.payloads.defer("wire", "encrypted"):
            name, content_type = map(markup.escape_invisible, (str(part), part.content_type))
            form.fields[f"{_PAYLOAD}{part.position}"] = forms.FileField(
                label=f"Replacement for payload {part.position}, {name}",
                required=False,
                validators=[_check_size],
                help_text=f"Sent as {content_type}. Leave empty to keep the payload.",
                widget=UnfoldAdminFileFieldWidget(),
            )
        return form

    def act(self, row: OutboundMessage, actor: Actor, form: ReasonForm) -> str:
        entered = form.cleaned_data
        correction = Correction(
            entered["service_interface"],
            entered["action"],
            {
                int(name.removeprefix(_PAYLOAD)): content.read()
                for name, content in entered.items()
                if name.startswith(_PAYLOAD) and content
            },
        )
        copy = self.action.flow(row, correction, entered.get("verdict"), actor)
        ended = "has failed" if row.state == OutboundState.FAILED else "cancelled"
        return f"Message {row} {ended}, corrected copy {copy} queued."
