"""The form of a maintenance window: for one partner, and for several."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django import forms
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminSelect2MultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldBooleanWidget,
)

from msh.admin.framework.actions import ReasonForm
from msh.admin.framework.time_zone import LocalTimeField
from partners.models import Partner

_DURATIONS = {"": "-", "30": "30 minutes", "60": "1 hour", "120": "2 hours", "480": "8 hours"}
"""By minutes."""


class WindowForm(ReasonForm):
    """Suspended now if no beginning is entered. The end is a time or follows from a duration."""

    starts_at = LocalTimeField(label="Suspend from", required=False)
    lasts = forms.ChoiceField(
        label="Resume after",
        choices=list(_DURATIONS.items()),
        required=False,
        widget=UnfoldAdminSelectWidget(),
    )
    ends_at = LocalTimeField(label="or resume at", required=False)
    resume_suspended = forms.BooleanField(
        label="Also resume a link that was already suspended",
        required=False,
        widget=UnfoldBooleanWidget(),
        help_text="If this is not selected, a link that is already suspended when the window begins"
        " stays suspended at its end: the cause may last longer than the maintenance.",
    )

    field_order: Sequence[str] = ("starts_at", "lasts", "ends_at", "resume_suspended", "reason")

    def __init__(self, *data: object, **options: object) -> None:
        super().__init__(*data, **options)
        now = timezone.now()
        zone = f"time zone {timezone.get_current_timezone_name()}, where it is {local(now)}."
        self.fields["starts_at"].help_text = f"Empty: now. Date and time (24 hours), {zone}"
        self.fields["ends_at"].help_text = f"Date and time (24 hours), {zone}"

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        lasts = cleaned.pop("lasts", "")
        if self.errors:
            return cleaned
        if bool(lasts) == bool(cleaned.get("ends_at")):
            self.add_error("ends_at", "Select a duration or enter a time: one of them.")
        elif lasts:
            begins = cleaned.get("starts_at") or timezone.now()
            cleaned["ends_at"] = begins + timedelta(minutes=int(lasts))
        return cleaned


class SeveralForm(WindowForm):
    partners = forms.ModelMultipleChoiceField(
        Partner.objects.all(), widget=UnfoldAdminSelect2MultipleWidget()
    )

    field_order = ("partners", *WindowForm.field_order)


def local(at: datetime) -> str:
    """In the zone of the console, and in UTC."""
    shown = f"{timezone.localtime(at):%Y-%m-%d %H:%M %Z}"
    return shown if shown.endswith("UTC") else f"{shown} ({at.astimezone(UTC):%H:%M} UTC)"
