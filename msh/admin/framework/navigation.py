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

from msh.flows.operations.certificates import VIEW_PERMISSIONS
from msh.flows.operations.guard import is_on
from msh.models import ActRequest, Delivery, Incident, OutboundLink
from partners.models import our_identity

from .markup import list_url


@dataclass(frozen=True, slots=True)
class Item:
    """`label` names the model, which may be that of a feature. `alarm` counts the rows that need an
    operator, for the badge; 0 is not shown. `beside`: pages that are tabs of its list. Without
    `if_empty`, who may not add a row does not see the entry before there is one. `page`: the name
    of a page that is no list, for who has the permissions `needs`; it is beside the model's."""

    title: str
    icon: str
    label: str
    query: tuple[tuple[str, str], ...] = ()
    alarm: Callable[[], int] | None = None
    shown: Callable[[], bool] = lambda: True
    if_empty: bool = True
    beside: "tuple[Item, ...]" = ()
    page: str = ""
    needs: tuple[str, ...] = ()

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
            Item(
                "Links to partners",
                "sync_alt",
                "msh.OutboundLink",
                alarm=_suspended,
                beside=(
                    Item("Maintenance windows", "", "msh.MaintenanceWindow"),
                    Item("Conversations to partners", "", "msh.OutboundConversation"),
                ),
            ),
            Item(
                "Incidents",
                "warning",
                "msh.Incident",
                (("is", "open"),),
                alarm=_open_incidents,
                beside=(Item("Alerts", "", "msh.OperatorNotice"),),
            ),
            Item(
                "Deliveries",
                "move_to_inbox",
                "msh.Delivery",
                (("is", "undecided"),),
                alarm=_undecided,
            ),
            Item(
                "Four-eyes requests",
                "supervisor_account",
                "msh.ActRequest",
                alarm=_asked,
                shown=is_on,
            ),
            Item(
                "Bulk jobs",
                "checklist",
                "msh.BulkJob",
                beside=(Item("Schedules", "", "django_celery_beat.PeriodicTask"),),
            ),
        ),
    ),
    (
        "Messages",
        (
            Item("Outbound", "outbox", "msh.OutboundMessage"),
            Item("Inbound", "inbox", "msh.InboundMessage"),
            Item(
                "Links from partners",
                "call_received",
                "msh.InboundLink",
                beside=(
                    Item("Conversations from partners", "", "msh.InboundConversation"),
                    Item("Pending signals", "", "msh.Signal", (("is", "pending"),)),
                ),
            ),
            Item("History", "history", "msh.History"),
        ),
    ),
    (
        "Configuration",
        (
            Item(
                "Partners",
                "handshake",
                "partners.Partner",
                beside=(
                    Item("Agreements", "", "partners.Agreement"),
                    Item("Channels", "", "partners.Channel", if_empty=False),
                    Item("Routes", "", "partners.Route"),
                    Item(
                        "Certificates",
                        "",
                        "partners.Agreement",
                        page="certificates",
                        needs=VIEW_PERMISSIONS,
                    ),
                    Item("This MSH", "", "partners.OwnIdentity", if_empty=False),
                ),
            ),
            Item(
                "Consumers",
                "apps",
                "msh.Consumer",
                beside=(
                    Item("Webhooks", "", "msh.Webhook"),
                    Item("Business keys", "", "msh.KeyRule"),
                ),
            ),
            Item("Alert recipients", "campaign", "msh.AlertRecipient"),
        ),
    ),
    (
        "Access",
        (
            Item(
                "Users",
                "person",
                "auth.User",
                beside=(
                    Item("Machine users", "", "auth.User", MACHINES),
                    Item("Roles", "", "auth.Group"),
                    Item("API tokens", "", "msh.ApiToken"),
                ),
            ),
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


def tabs(request: HttpRequest) -> list[dict[str, object]]:
    """The pages beside this one, for unfold (`TABS` in the settings). Those beside others, which no
    page shows, would cost it a tenth of its time."""
    return [
        {"models": sorted({str(one.model._meta) for one in shown}), "items": _tabs(shown, request)}  # noqa: SLF001  public
        for _, items in GROUPS
        for item in items
        if any(one.is_there and _is_at(one, request) for one in (item, *item.beside))
        and len(shown := _visible(item, request)) > 1
    ]


def _tabs(shown: list[Item], request: HttpRequest) -> list[dict[str, object]]:
    return [
        {"title": one.title, "link": _link(one), "active": _is_tab_of(one, request)}
        for one in shown
    ]


def _groups(request: HttpRequest) -> list[dict[str, object]]:
    return [
        {
            "title": title,
            "separator": True,
            "items": [
                _entry(item, shown, request) for item in items if (shown := _visible(item, request))
            ],
        }
        for title, items in GROUPS
    ]


def _visible(item: Item, request: HttpRequest) -> list[Item]:
    """The page of this entry and those beside it, as far as this user may see them."""
    return [one for one in (item, *item.beside) if one.shown() and _can_view(one, request)]


def _can_view(item: Item, request: HttpRequest) -> bool:
    if not item.is_there:
        return False
    if item.page:
        return request.user.has_perms(item.needs)
    page = admin.site.get_model_admin(item.model)
    if not page.has_view_permission(request):
        return False
    has_rows = item.if_empty or page.has_add_permission(request)
    return has_rows or item.model._default_manager.exists()  # noqa: SLF001  public


def _entry(item: Item, shown: list[Item], request: HttpRequest) -> dict[str, object]:
    """It leads to the first of its pages that this user may see, and has its name."""
    first = shown[0]
    return {
        "title": first.title,
        "icon": item.icon,
        "link": _link(first),
        "active": any(_is_at(one, request) for one in shown),
        "counts": first.alarm is not None,
        "badge": first.alarm() if first.alarm else 0,
    }


def _link(item: Item) -> str:
    return reverse(item.page) if item.page else list_url(item.model, **dict(item.query))


def _is_at(item: Item, request: HttpRequest) -> bool:
    """Whether this is its list, or the page of one of its rows."""
    return request.path.startswith(reverse(item.page) if item.page else list_url(item.model))


def _is_tab_of(item: Item, request: HttpRequest) -> bool:
    """Two tabs lead to the list of users: the active one is that with the filter of the page."""
    if item.model is not User:
        return _is_at(item, request)
    filtered = tuple(request.GET.items()) == MACHINES
    return _is_at(item, request) and filtered == (item.query == MACHINES)


def our_uri(request: HttpRequest) -> str:
    """The line under the title: the MSH that this console belongs to."""
    return our_identity().uri


def stylesheet(request: HttpRequest) -> str:
    return static("msh/console.css")


def icon(request: HttpRequest) -> str:
    return static("msh/icon.svg")


def script(request: HttpRequest) -> str:
    return static("msh/console.js")
