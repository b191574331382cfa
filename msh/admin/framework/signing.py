"""The secrets by which POSTs are signed, on the page of their destination."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from msh.models.signing import Signed, SigningChange
from partners.secrecy import SecretUnreadableError

from .audited import AuditedForm

_KEEP = ("", "leave as it is")


class SigningForm(AuditedForm):
    """The secret is made here, stored encrypted, and shown once (`show_new_secret`)."""

    signing = forms.ChoiceField(
        label="Signature",
        choices=[_KEEP, *((one.value, one.label) for one in SigningChange)],
        required=False,
        widget=UnfoldAdminSelectWidget(),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "signing" in self.fields:
            self.fields["signing"].help_text = (
                "Requests are signed as Standard Webhooks say. A new secret is shown once, after"
                f" you save. Now: {self.instance.signing_text()}."
            )

    def clean_signing(self) -> str:
        change: str = self.cleaned_data["signing"]
        if change:
            try:
                self.instance.change_signing(change)
            except SecretUnreadableError as problem:
                raise ValidationError(str(problem)) from None
        return change


def show_new_secret(request: HttpRequest, row: Signed) -> None:
    if row.new_secret:
        messages.warning(
            request,
            f"Signing secret of {row}: {row.new_secret} Copy it now: it is not shown again.",
        )
