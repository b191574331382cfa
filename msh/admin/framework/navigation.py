"""The sidebar: first what may need an operator, and only what this user can view."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from msh.flows.operations.guard import is_on
from msh.models import (
    ActRequest,
    AlertRecipient,
    ApiToken,
    BulkJob,
    Consumer,
    Delivery,
    History,
    InboundConversation,
    InboundLink,
    InboundMessage,
    Incident,
    KeyRule,
    MaintenanceWindow,
    OperatorNotice,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    SettingChange,
    Signal,
)
from partners.models import Agreement, OwnIdentity, Partner, Route, our_identity

from .markup import list_url


@dataclass(frozen=True, slots=True)
class Item:
    """`alarm` counts the rows that need an operator; 0 is not shown. Without `if_empty`, who may
    not add a row does not see the entry before there is one."""

    title: str
    icon: str
    model: type[Model]
    query: tuple[tuple[str, str], ...] = ()
    alarm: Callable[[], int] | None = None
    shown: Callable[[], bool] = lambda: True
    if_empty: bool = True


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
            Item("Links to partners", "sync_alt", OutboundLink, alarm=_suspended),
            Item("Incidents", "warning", Incident, alarm=_open_incidents),
            Item("Alerts", "notifications", OperatorNotice),
            Item("Maintenance windows", "event_busy", MaintenanceWindow),
            Item("Bulk jobs", "checklist", BulkJob),
            Item("Four-eyes requests", "supervisor_account", ActRequest, alarm=_asked, shown=is_on),
            Item("Deliveries", "move_to_inbox", Delivery, alarm=_undecided),
        ),
    ),
    (
        "Messages",
        (
            Item("Outbound", "outbox", OutboundMessage),
            Item("Inbound", "inbox", InboundMessage),
            Item("Links from partners", "call_received", InboundLink),
            Item("Conversations to partners", "speaker_notes_off", OutboundConversation),
            Item("Conversations from partners", "speaker_notes", InboundConversation),
            Item("Pending signals", "reply", Signal, (("is", "pending"),)),
            Item("History", "history", History),
        ),
    ),
    (
        "Configuration",
        (
            Item("Partners", "handshake", Partner),
            Item("Agreements", "contract", Agreement),
            Item("Consumers", "apps", Consumer),
            Item("Business keys", "find_in_page", KeyRule),
            Item("Alert recipients", "campaign", AlertRecipient),
            Item("Routes", "alt_route", Route),
            Item("This MSH", "hub", OwnIdentity, if_empty=False),
            Item("Schedules", "schedule", PeriodicTask),
        ),
    ),
    (
        "Access",
        (
            Item("Users", "person", User),
            Item("Machine users", "computer", User, MACHINES),
            Item("Roles", "group", Group),
            Item("API tokens", "key", ApiToken),
            Item("Audit log", "manage_history", SettingChange),
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
    if request.user.has_perm("msh.view_statistics"):
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
    if item.model is not User:
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
