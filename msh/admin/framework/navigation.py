"""The sidebar: first what may need an operator, and only what this user can view."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations.guard import is_on
from msh.models import ActRequest, Delivery, Incident, OutboundLink
from partners.models import our_identity

from .markup import list_url


@dataclass(frozen=True, slots=True)
class Item:
    """`label` names the model, which may be that of a feature. `alarm` counts the rows that need an
    operator; 0 is not shown. Without `if_empty`, who may not add a row does not see the entry
    before there is one."""

    title: str
    icon: str
    label: str
    query: tuple[tuple[str, str], ...] = ()
    alarm: Callable[[], int] | None = None
    shown: Callable[[], bool] = lambda: True
    if_empty: bool = True

    @property
    def model(self) -> type[Model]:
        return apps.get_model(self.label)

    @property
    def is_there(self) -> bool:
        """Whether it has a page: that of a feature may be left out."""
        app, name = self.label.split(".")
        model = apps.all_models[app].get(name.lower())
        return model is not None and admin.site.is_registered(model)


def _suspended() -> int:
    return OutboundLink.objects.suspended().count()


def _open_incidents() -> int:
    return Incident.objects.filter(resolved_at=None).count()


def _asked() -> int:
    return ActRequest.objects.waiting(timezone.now()).count()


def _undecided() -> int:
    return Delivery.objects.waiting_for_operator().count()


MACHINES = (("kind", "machine"),)
GROUPS = (
    (
        "Action required",
        (
            Item("Links to partners", "sync_alt", "msh.OutboundLink", alarm=_suspended),
            Item("Incidents", "warning", "msh.Incident", alarm=_open_incidents),
            Item("Alerts", "notifications", "msh.OperatorNotice"),
            Item("Maintenance windows", "event_busy", "msh.MaintenanceWindow"),
            Item("Bulk jobs", "checklist", "msh.BulkJob"),
            Item(
                "Four-eyes requests",
                "supervisor_account",
                "msh.ActRequest",
                alarm=_asked,
                shown=is_on,
            ),
            Item("Deliveries", "move_to_inbox", "msh.Delivery", alarm=_undecided),
        ),
    ),
    (
        "Messages",
        (
            Item("Outbound", "outbox", "msh.OutboundMessage"),
            Item("Inbound", "inbox", "msh.InboundMessage"),
            Item("Links from partners", "call_received", "msh.InboundLink"),
            Item("Conversations to partners", "speaker_notes_off", "msh.OutboundConversation"),
            Item("Conversations from partners", "speaker_notes", "msh.InboundConversation"),
            Item("Pending signals", "reply", "msh.Signal", (("is", "pending"),)),
            Item("History", "history", "msh.History"),
        ),
    ),
    (
        "Configuration",
        (
            Item("Partners", "handshake", "partners.Partner"),
            Item("Agreements", "contract", "partners.Agreement"),
            Item("Consumers", "apps", "msh.Consumer"),
            Item("Business keys", "find_in_page", "msh.KeyRule"),
            Item("Alert recipients", "campaign", "msh.AlertRecipient"),
            Item("Routes", "alt_route", "partners.Route"),
            Item("This MSH", "hub", "partners.OwnIdentity", if_empty=False),
            Item("Schedules", "schedule", "django_celery_beat.PeriodicTask"),
        ),
    ),
    (
        "Access",
        (
            Item("Users", "person", "auth.User"),
            Item("Machine users", "computer", "auth.User", MACHINES),
            Item("Roles", "group", "auth.Group"),
            Item("API tokens", "key", "msh.ApiToken"),
            Item("Audit log", "manage_history", "msh.SettingChange"),
        ),
    ),
)


def sidebar(request: HttpRequest) -> list[dict[str, object]]:
    """Groups of links, for unfold (`SIDEBAR` in the settings)."""
    return [
        {"title": "", "separator": False, "items": list(_first(request))},
        *_groups(request),
    ]


def _first(request: HttpRequest) -> Iterator[dict[str, object]]:
    yield {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")}
    if apps.is_installed("msh.statistics") and request.user.has_perm("msh.view_statistics"):
        yield {"title": "Statistics", "icon": "bar_chart", "link": reverse("statistics")}


def _groups(request: HttpRequest) -> list[dict[str, object]]:
    return [
        {
            "title": title,
            "separator": True,
            "items": [
                _entry(item, request) for item in items if item.shown() and _can_view(item, request)
            ],
        }
        for title, items in GROUPS
    ]


def _can_view(item: Item, request: HttpRequest) -> bool:
    if not item.is_there:
        return False
    page = admin.site.get_model_admin(item.model)
    if not page.has_view_permission(request):
        return False
    has_rows = item.if_empty or page.has_add_permission(request)
    return has_rows or item.model._default_manager.exists()  # noqa: SLF001  public


def _entry(item: Item, request: HttpRequest) -> dict[str, object]:
    return {
        **_active(item, request),
        "title": item.title,
        "icon": item.icon,
        "link": list_url(item.model, **dict(item.query)),
        "badge": item.alarm() if item.alarm else 0,
        "badge_style": "solid",
    }


def _active(item: Item, request: HttpRequest) -> dict[str, object]:
    """Two entries lead to the list of users: the active one is that with the filter of the page.
    For all others Unfold compares addresses."""
    if item.label != "auth.User":
        return {}
    listed = request.path.startswith(list_url(User))
    filtered = tuple(request.GET.items()) == MACHINES
    return {"active": listed and filtered == (item.query == MACHINES)}


def our_uri(request: HttpRequest) -> str:
    """The line under the title: the MSH that this console belongs to."""
    return our_identity().uri


def stylesheet(request: HttpRequest) -> str:
    return static("msh/console.css")


def icon(request: HttpRequest) -> str:
    return static("msh/icon.svg")


def script(request: HttpRequest) -> str:
    return static("msh/console.js")
