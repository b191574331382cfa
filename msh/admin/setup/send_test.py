"""The dialog that sends a test message under an agreement."""

from django import forms
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import actions
from msh.store.history import Actor
from partners.models import Agreement

LIMIT = 10_000
"""Characters of its text."""


class MessageForm(ReasonForm):
    service_interface = forms.CharField(
        label="ServiceInterface", max_length=255, initial="Test", widget=UnfoldAdminTextInputWidget
    )
    action = forms.CharField(max_length=255, initial="Test", widget=UnfoldAdminTextInputWidget)
    text = forms.CharField(
        max_length=LIMIT,
        initial="This is a test message.",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="The payload, as text/plain.",
    )

    field_order = ("service_interface", "action", "text", "reason")


class SendTestMessage(ActionDialog[Agreement]):
    action = actions.SEND_TEST_MESSAGE
    icon = "send"
    form = MessageForm

    def act(self, row: Agreement, actor: Actor, form: ReasonForm) -> str:
        message = self.action.flow(row, actor, **form.action_fields)
        return format_html("The message is queued: {}", markup.link_to(message))
