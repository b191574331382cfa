"""The time zone of the user: pages show their times in it, and read what is typed in it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from msh.models import Preference

ZONE = "msh_time_zone"
"""The key in a session of the user's choice, so that no page has to query the database for it."""
_FORMATS = [f"%Y-%m-%d{between}{time}" for between in (" ", "T") for time in ("%H:%M", "%H:%M:%S")]
_EXAMPLE = "2026-12-31 22:05"


class TimeZones:
    """Middleware of the console. Statistics are counted in hours and days of the zone of the
    settings: their pages show it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith(reverse("admin:index")):
            return self._get_response(request)
        counted = request.path.startswith(f"{reverse('admin:index')}statistics/")
        with timezone.override(None if counted else _zone_of(request)):
            return self._get_response(request)


def _zone_of(request: HttpRequest) -> ZoneInfo:
    """A zone that this machine does not know any more is not an error of the page."""
    for name in (chosen(request), settings.MSH_TIME_ZONE):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            continue
    return ZoneInfo("UTC")


def chosen(request: HttpRequest) -> str:
    """The name of the user's zone; empty: that of the installation."""
    if ZONE in request.session:
        return str(request.session[ZONE])
    if not request.user.is_authenticated:
        return ""
    user: Any = request.user
    names = Preference.objects.filter(user=user.pk).values_list("time_zone", flat=True)
    return names.first() or ""


def remember(request: HttpRequest) -> None:
    """When a session begins."""
    request.session[ZONE] = chosen(request)


class ZoneForm(forms.Form):
    zone = forms.ChoiceField(label="Time zone", required=False, widget=UnfoldAdminSelectWidget())

    def __init__(self, *data: object, **options: object) -> None:
        super().__init__(*data, **options)  # type: ignore[arg-type]  # as Django's own
        default = f"default of this MSH: {settings.MSH_TIME_ZONE}"
        names = sorted(name for name in available_timezones() if "/" in name or name == "UTC")
        self.fields["zone"].choices = [("", default), *((name, name) for name in names)]  # type: ignore[attr-defined]


def time_zone(request: HttpRequest) -> HttpResponse:
    """The page that chooses it. Users choose their own."""
    form = ZoneForm(request.POST or None, initial={"zone": chosen(request)})
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["zone"]
        user: Any = request.user
        Preference.objects.update_or_create(user=user, defaults={"time_zone": name})
        request.session[ZONE] = name
        messages.success(request, f"Times are shown in {name or settings.MSH_TIME_ZONE}.")
        return HttpResponseRedirect(reverse("time_zone"))
    now = timezone.localtime()
    context = {
        **admin.site.each_context(request),
        "title": "Time zone",
        "form": form,
        "now": f"{now:%Y-%m-%d %H:%M:%S %Z} (UTC{now:%z})",
    }
    return TemplateResponse(request, "admin/msh/framework/time_zone.html", context)


# --- what is typed ------------------------------------------------------------------------------


class LocalTimeField(forms.DateTimeField):
    """A date and a time of 24 hours in the user's zone. A text: the browser's own field shows the
    hours of its own language. What the clock skips is refused in words, and what it shows twice,
    unless the difference to UTC is written behind it."""

    def __init__(self, **options: object) -> None:
        attrs = {"placeholder": _EXAMPLE, "autocomplete": "off"}
        options = {
            "input_formats": _FORMATS,
            "widget": UnfoldAdminTextInputWidget(attrs=attrs),
            "error_messages": {"invalid": f"Enter a date and time, such as {_EXAMPLE}."},
            **options,
        }
        super().__init__(**options)  # type: ignore[arg-type]  # as Django's own

    def prepare_value(self, value: object) -> object:
        return written(value) if isinstance(value, datetime) else value

    def to_python(self, value: Any) -> datetime | None:
        try:
            at: datetime | None = super().to_python(value)
        except ValidationError as refused:
            if getattr(refused, "code", "") != "ambiguous_timezone":
                raise
            params: Any = refused.params
            why = why_not_a_time(params["datetime"])
            raise ValidationError(why, code="ambiguous_timezone") from None
        # In a zone, two hours more are those of the clock on the wall, also over a change of it.
        return at.astimezone(UTC) if at else None


def written(at: datetime) -> str:
    """Return the time as `LocalTimeField` reads it: with the difference to UTC if that local time
    occurs twice."""
    local = timezone.localtime(at)
    naive = local.replace(tzinfo=None)
    shown = local if why_not_a_time(naive) else naive
    return shown.isoformat(" ", "seconds")


def aware(naive: datetime) -> datetime:
    """Return the time in the user's zone. Raises ValueError with a sentence for a local time that
    does not exist there, or occurs twice."""
    if why := why_not_a_time(naive):
        raise ValueError(why)
    return timezone.make_aware(naive)


def why_not_a_time(naive: datetime) -> str:
    """Why this is not one time in the user's zone, with the cure; empty if it is."""
    zone = timezone.get_current_timezone()
    both = [naive.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    first, second = (at.utcoffset() for at in both)
    if first is None or second is None or first == second:
        return ""
    name = getattr(zone, "key", timezone.get_current_timezone_name())
    shown = f"{naive:%Y-%m-%d %H:%M}"
    hour = _length(first - second)
    if first > second:
        either = " or ".join(at.isoformat(" ", "minutes") for at in both)
        return (
            f"{shown} comes twice in {name}: the clocks are put back {hour} that day. Enter which"
            f" one, with its UTC offset: {either}."
        )
    return (
        f"{shown} does not exist in {name}: the clocks are put forward {hour} that day. Choose a"
        " time before or after the gap."
    )


def _length(difference: timedelta) -> str:
    minutes = int(abs(difference).total_seconds()) // 60
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
