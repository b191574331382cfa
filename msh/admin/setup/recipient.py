"""Who is called about incidents: by severity, partner and role, with quiet hours and escalation."""

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from msh.admin.framework import markup
from msh.admin.framework.audited import AuditedAdmin, AuditedForm
from msh.admin.framework.pages import Table
from msh.flows.errors import NotPossible
from msh.flows.operations.alerts.channels import send_test_call
from msh.models import AlertRecipient, Channel, OperatorNotice
from msh.models.alerts import ALL_DAYS
from msh.protocol.alerts.quiet import quiet_until

TEST_PERMISSIONS = ("msh.view_alertrecipient", "msh.change_alertrecipient")
DAYS = dict(zip(ALL_DAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True))
"""ISO weekdays and their names."""
_FAILING = Q(given_up=False) & ~Q(error="")
_HELD = Q(given_up=False, held=True)
_REGIONS = (
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe"),
    *("Indian", "Pacific"),
)
_SECRET = {"autocomplete": "new-password"}


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
    """Weekdays, as the text that the model keeps."""

    def __init__(self, label: str, help_text: str = "", initial: str = "") -> None:
        super().__init__(
            label=label,
            help_text=help_text,
            required=False,
            initial=initial,
            choices=list(DAYS.items()),
            widget=DaysWidget(label),
        )

    def prepare_value(self, value: Any) -> Any:
        return list(value) if isinstance(value, str) else value

    def clean(self, value: Any) -> str:
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
    """By region and place, without what is there for old systems."""
    places = [one for one in available_timezones() if one.partition("/")[0] in _REGIONS]
    return [(name, name) for name in ("UTC", *sorted(places))]


class RecipientForm(AuditedForm):
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
    quiet_from = _clock(
        "Quiet from", "22:00", "No calls from this time on, in the time zone below …"
    )
    quiet_until = _clock(
        "Quiet until",
        "07:00",
        "… until this time, on the next day if it is earlier. Calls that were held back are sent"
        " as one digest.",
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
        widgets = {"addresses": UnfoldAdminTextareaWidget(attrs={"rows": 2})}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "channel" in cleaned:
            self._take_secrets(cleaned["channel"], cleaned.get("url", ""), cleaned.get("key", ""))
        return cleaned

    def _take_secrets(self, channel: str, url: str, key: str) -> None:
        """Who may change an address must not read out the key by having it sent there."""
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


_WITH_KEY = (Channel.WEBHOOK, Channel.PAGERDUTY)


@admin.register(AlertRecipient)
class RecipientAdmin(AuditedAdmin):
    form = RecipientForm
    list_display = ("name", "how", "whom", "about", "turn", "now", "last")
    sortable_by = ()
    search_fields = ("name",)
    list_before_template = "admin/msh/setup/recipients.html"
    change_form_outer_before_template = "admin/msh/setup/recipient_actions.html"
    fieldsets = (
        (None, {"fields": ("name", "enabled")}),
        ("How", {"fields": ("channel", "addresses", "role", "url", "key")}),
        ("Which incidents", {"fields": ("at_least", "partners", "on_end")}),
        ("Escalation", {"fields": (("step", "wait"),)}),
        (
            "Quiet hours",
            {
                "fields": (
                    ("quiet_from", "quiet_until"),
                    "quiet_days",
                    "quiet_all_day",
                    ("time_zone", "critical_through"),
                )
            },
        ),
    )

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(self.test)
        urls: list[URLPattern] = super().get_urls()
        return [path("<int:object_id>/test/", page, name="msh_alertrecipient_test"), *urls]

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRecipient]:
        rows: QuerySet[AlertRecipient] = super().get_queryset(request)
        return rows.select_related("role").prefetch_related("partners")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        extra = {
            **(extra_context or {}),
            "settings_mail": settings.MSH_OPERATORS_EMAIL,
            "settings_webhook": bool(settings.MSH_OPERATORS_WEBHOOK),
        }
        response: HttpResponse = super().changelist_view(request, extra)
        return response

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        may_test = request.user.has_perms(TEST_PERMISSIONS)
        extra = {**(extra_context or {}), "may_test": may_test}
        response: HttpResponse = super().change_view(request, object_id, form_url, extra)
        return response

    def test(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """GET describes the test call, POST sends it."""
        if not request.user.has_perms(TEST_PERMISSIONS):
            raise PermissionDenied
        recipient = self.get_queryset(request).filter(pk=object_id).first()
        if recipient is None:
            raise Http404(f"The recipient {object_id} does not exist.")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test call to {recipient}",
            "opts": self.opts,
            "recipient": recipient,
            "whom": self.whom(recipient),
            "back": markup.page_url(recipient),
            "tables": [_answer(recipient)] if request.method == "POST" else [],
        }
        return TemplateResponse(request, "admin/msh/setup/test_call.html", context)

    @display(description="Channel")
    def how(self, recipient: AlertRecipient) -> str:
        shown: str = recipient.get_channel_display()
        return shown if recipient.enabled else format_html("{} {}", shown, markup.badge("off"))

    @display(description="Recipient")
    def whom(self, recipient: AlertRecipient) -> str:
        if recipient.channel != Channel.EMAIL:
            return recipient.host or "https://events.pagerduty.com"
        role = f"everyone with the role {recipient.role}" if recipient.role else ""
        return "; ".join(one for one in (recipient.addresses, role) if one)

    @display(description="About")
    def about(self, recipient: AlertRecipient) -> str:
        names = [str(partner) for partner in recipient.partners.all()]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        severity = recipient.get_at_least_display()
        note = '<div>{}<div class="msh-note">{}</div></div>'
        return format_html(note, severity, markup.in_words(shown or "all partners"))

    @display(description="When")
    def turn(self, recipient: AlertRecipient) -> str:
        when = "at once" if recipient.step == 1 else f"at step {recipient.step}"
        return f"{when}, next after {recipient.wait} min" if recipient.wait else when

    @display(description="Quiet hours")
    def now(self, recipient: AlertRecipient) -> str:
        quiet = recipient.quiet
        if quiet is None:
            return "none"
        until = quiet_until(quiet, timezone.now())
        shown = _quiet_text(recipient)
        if until is None:
            return shown
        badge = markup.badge("quiet now", "warning")
        return format_html('<div>{} {}<div class="msh-note">until {}</div></div>',
                           shown, badge, markup.time_of(until))  # fmt: skip

    @display(description="Last call")
    def last(self, recipient: AlertRecipient) -> str:
        """Sent, and what could not be sent since."""
        calls = OperatorNotice.objects.filter(to=recipient.name, channel=recipient.channel)
        sent = calls.filter(sent_at__isnull=False).order_by("-sent_at").first()
        unsent = calls.filter(sent_at=None).aggregate(
            failing=Count("pk", filter=_FAILING), held=Count("pk", filter=_HELD)
        )
        parts: list[object] = [markup.time_of(sent.sent_at) if sent else "none yet"]
        if unsent["failing"]:
            parts.append(markup.badge(f"{unsent['failing']} not sent", "danger"))
        if unsent["held"]:
            parts.append(markup.badge(f"{unsent['held']} held back", "info"))
        return format_html("{} " * len(parts), *parts)


def _quiet_text(recipient: AlertRecipient) -> str:
    parts = []
    if recipient.quiet_from and recipient.quiet_until:
        span = f"{recipient.quiet_from:%H:%M} to {recipient.quiet_until:%H:%M}"
        days = "" if recipient.quiet_days == ALL_DAYS else f" from {_names(recipient.quiet_days)}"
        parts.append(span + days)
    if recipient.quiet_all_day:
        parts.append(f"all {_names(recipient.quiet_all_day)}")
    through = "" if recipient.critical_through else ", critical too"
    return f"{', '.join(parts)} ({recipient.time_zone}){through}"


def _names(days: str) -> str:
    return ", ".join(DAYS[day] for day in days)


def _answer(recipient: AlertRecipient) -> Table:
    try:
        went, said = ("sent", "success"), send_test_call(recipient)
    except NotPossible as problem:
        went, said = ("not sent", "danger"), str(problem)
    row = (markup.badge(*went), markup.verbatim(said))
    return Table("Result", ("Call", "What the channel answered"), [row], "")
