"""Cancel a message and submit a corrected copy: a form with its payloads to replace."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.template.defaultfilters import filesizeformat
from unfold.widgets import (
    UnfoldAdminFileFieldWidget,  # a plain one has unfold's script write into other fields
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.actions import OperatorAction, ReasonForm
from msh.flows import cancel, correct
from msh.flows.correct import Correction
from msh.models import OutboundMessage, OutboundState
from msh.protocol.events import Verdict
from msh.store.history import Actor

_PAYLOAD = "payload_"
VERDICTS = [
    ("", "say what is true"),
    (Verdict.RECEIVED.value, "the partner has received it"),
    (Verdict.NOT_RECEIVED.value, "the partner has not received it, which must be proven"),
    (Verdict.UNKNOWN.value, "nobody knows: the numbers start again at 1"),
]


def verdicts_on(message: OutboundMessage) -> list[tuple[str, str]]:
    """Those that may be true of it. Of a mail nobody proves that it was not received (D18)."""
    by_mail = message.link.partner.is_reached_by_mail
    return [v for v in VERDICTS if not (by_mail and v[0] == Verdict.NOT_RECEIVED)]


class CancelQueued(OperatorAction):
    """The one in flight is cancelled on the page of its link, with a verdict."""

    name = "cancel"
    title = "Cancel"
    icon = "block"
    irreversible = True
    permissions = ("msh.view_outboundmessage", "msh.cancel_outboundlink")

    def why_not(self, row: OutboundMessage) -> str:
        if row.state == OutboundState.QUEUED:
            return ""
        return f"the message is {row.get_state_display()}, not queued."

    def consequence(self, row: OutboundMessage) -> str:
        return (
            "The message was never sent and will not be. It leaves no gap in the numbers. Its"
            " sender is told that it is cancelled. The partner has nothing to do."
        )

    def act(self, row: OutboundMessage, actor: Actor, **fields: Any) -> str:
        cancel.cancel(row, None, actor)
        return f"Message {row} is cancelled."


def _check_size(content: "UploadedFile[bytes]") -> None:
    if (content.size or 0) > settings.MSH_MESSAGE_LIMIT:
        limit = filesizeformat(settings.MSH_MESSAGE_LIMIT)
        raise forms.ValidationError(f"It is larger than a message may be: {limit}.")


class CorrectionForm(ReasonForm):
    """What the copy is to have instead. Blank: as it is."""

    service_interface = forms.CharField(
        label="ServiceInterface", max_length=255, widget=UnfoldAdminTextInputWidget
    )
    action = forms.CharField(label="Action", max_length=255, widget=UnfoldAdminTextInputWidget)

    def __init__(self, message: OutboundMessage, *data: Any, **options: Any) -> None:
        purpose = {"service_interface": message.service_interface, "action": message.action}
        options["initial"] = {**purpose, **options.get("initial", {})}
        super().__init__(*data, **options)
        if message.state == OutboundState.IN_FLIGHT:
            self.fields["verdict"] = forms.ChoiceField(
                label="What became of the message in flight",
                choices=verdicts_on(message),
                widget=UnfoldAdminSelectWidget(),
            )
        for part in message.payloads.defer("wire"):
            self.fields[f"{_PAYLOAD}{part.position}"] = forms.FileField(
                label=f"Instead of payload {part.position}, {markup.escape_invisible(str(part))}",
                required=False,
                validators=[_check_size],
                help_text=f"Sent as {markup.escape_invisible(part.content_type)}. None: as it is.",
                widget=UnfoldAdminFileFieldWidget(),
            )


class Correct(OperatorAction):
    """The message stays as it was submitted: the copy is another one, linked to it."""

    name = "correct"
    title = "Cancel and submit a corrected copy"
    icon = "edit_document"
    irreversible = True
    permissions = (
        "msh.view_outboundmessage",
        "msh.cancel_outboundlink",
        "msh.correct_outboundmessage",
    )

    def why_not(self, row: OutboundMessage) -> str:
        return correct.why_not(row)

    def consequence(self, row: OutboundMessage) -> str:
        ends = {
            OutboundState.QUEUED: "The message was never sent and will not be. ",
            OutboundState.IN_FLIGHT: "The message is given up, with your verdict: if the partner"
            " has it, or may have it, agree with it on what the copy is to it. ",
        }.get(OutboundState(row.state), "The message is cancelled already. ")
        return (
            f"{ends}A copy with a MessageId of its own, the same ConversationId and what you give"
            f" here joins the end of the queue to {row.link.partner}. Each page names the other."
        )

    def version(self, row: OutboundMessage) -> str:
        return str(row.state)

    def form_for(self, row: Any, *data: Any, **options: Any) -> ReasonForm:
        return CorrectionForm(row, *data, **options)

    def act(self, row: OutboundMessage, actor: Actor, **fields: Any) -> str:
        verdict = fields.get("verdict")
        correction = Correction(
            fields["service_interface"],
            fields["action"],
            {
                int(name.removeprefix(_PAYLOAD)): content.read()
                for name, content in fields.items()
                if name.startswith(_PAYLOAD) and content
            },
        )
        copy = correct.correct(row, correction, Verdict(verdict) if verdict else None, actor)
        return f"Message {row} is cancelled. Instead of it {copy} is queued."
