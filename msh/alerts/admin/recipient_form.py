"""The form of an alert recipient."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelect2MultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework.signing import SigningForm
from msh.alerts.models import ALL_DAYS, AlertRecipient, Channel
from partners.models import Partner

DAYS = dict(zip(ALL_DAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True))
"""ISO weekdays and their names."""
_REGIONS = (
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe"),
    *("Indian", "Pacific"),
)
_SECRET = {"autocomplete": "new-password"}
_WITH_KEY = (Channel.WEBHOOK, Channel.PAGERDUTY)


class DaysWidget(forms.CheckboxSelectMultiple):
    template_name = "admin/msh/setup/days.html"

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def get_context(self, *args: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(*args)
        context["widget"]["label"] = self.label
        return context


class DaysField(forms.MultipleChoiceField):
    """The field gives weekdays as the text that the model keeps."""

    def __init__(self, label: str, help_text: str = "", initial: str = "") -> None:
        super().__init__(
            label=label,
            help_text=help_text,
            required=False,
            initial=initial,
            choices=list(DAYS.items()),
            widget=DaysWidget(label),
        )

    def prepare_value(self, value: object) -> Any:
        return list(value) if isinstance(value, str) else value

    def clean(self, value: object) -> str:
        return "".join(sorted(super().clean(value)))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(list(initial or ""), data)


def _clock(label: str, example: str, help_text: str) -> forms.TimeField:
    return forms.TimeField(
        label=label,
        help_text=help_text,
        required=False,
        input_formats=["%H:%M"],
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": example, "autocomplete": "off"}),
        error_messages={"invalid": "Enter hours and minutes, such as 22:00."},
    )


def _zones() -> list[tuple[str, str]]:
    """Return time zones by region and place, without those that are there for old systems."""
    places = [one for one in available_timezones() if one.partition("/")[0] in _REGIONS]
    return [(name, name) for name in ("UTC", *sorted(places))]


class RecipientForm(SigningForm):
    """`url` and `key` are stored encrypted and never shown."""

    url = forms.CharField(
        label="URL",
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs=_SECRET),
        help_text="Webhook, Slack, Teams: where calls are POSTed to; anyone who knows the URL"
        " can post there. PagerDuty: only if it is not events.pagerduty.com. Stored"
        " encrypted, never shown again. Leave empty to keep it, enter none to remove"
        " it.",
    )
    key = forms.CharField(
        label="Authorization or routing key",
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs=_SECRET),
        help_text="Webhook: the Authorization header, such as Bearer and a token. PagerDuty: the"
        " routing key of the service. Stored encrypted, never shown again, like the"
        " URL.",
    )
    # Not the field of the model: the admin makes a list of it, without a search.
    partners = forms.ModelMultipleChoiceField(
        Partner.objects.all(),
        required=False,
        widget=UnfoldAdminSelect2MultipleWidget(),
        help_text="Only incidents of these partners. None selected: all partners.",
    )
    quiet_from = _clock(
        "Quiet from", "22:00", "No calls from this time on, in the time zone below …"
    )
    quiet_until = _clock(
        "Quiet until",
        "07:00",
        "… until this time; on the next day if it is earlier than the start. Calls that were held"
        " back are sent as one digest.",
    )
    quiet_days = DaysField("Quiet hours begin on", initial=ALL_DAYS)
    quiet_all_day = DaysField("Quiet all day on", "From midnight to midnight.")
    time_zone = forms.ChoiceField(
        choices=_zones,
        initial=timezone.get_current_timezone_name,
        widget=UnfoldAdminSelectWidget(),
        help_text="The quiet hours are in this time zone.",
    )

    class Meta:
        model = AlertRecipient
        exclude: tuple[str, ...] = ()
        widgets = {
            "addresses": UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        }

    def clean(self) -> dict[str, object]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "channel" in cleaned:
            self._take_secrets(cleaned["channel"], cleaned.get("url", ""), cleaned.get("key", ""))
        return cleaned

    def _take_secrets(self, channel: str, url: str, key: str) -> None:
        """A user who may change an address must not learn the key by having it sent there."""
        recipient, before = self.instance, self.instance.host
        other = recipient.channel != channel
        url = url or ("none" if other or channel == Channel.EMAIL else "")
        key = key or ("none" if other or channel not in _WITH_KEY else "")
        if url:
            try:
                recipient.post_to("" if url == "none" else url)
            except ValidationError as problem:
                self.add_error("url", problem)
        if key:
            recipient.show("" if key == "none" else key)
        elif recipient.key_secret and recipient.host != before:
            self.add_error("key", "The host has changed: enter the key again, or none.")
