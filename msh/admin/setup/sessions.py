"""The sessions of the console, and the button that ends one."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.sessions import ADDRESS, SEEN, SINCE
from msh.admin.framework.time_format import format_seconds
from msh.store.history import Actor
from msh.store.operations.settings_log import record_access

MOST = 1_000
"""Sessions that are read."""


@dataclass(frozen=True, slots=True)
class Open:
    """`name` stands for the session: its key would let somebody in."""

    row: Session
    name: str
    user: User
    since: datetime | None
    seen: datetime | None
    address: str
    own: bool

    @property
    def since_text(self) -> str:
        return markup.time_of(self.since)

    @property
    def seen_text(self) -> str:
        return markup.time_of(self.seen)


def sessions(request: HttpRequest) -> HttpResponse:
    """All for who may view users, one's own for others."""
    if request.method == "POST":
        return _end(request)
    context = {
        **admin.site.each_context(request),
        "title": "Sessions",
        "idle": format_seconds(settings.SESSION_COOKIE_AGE),
        "sessions": list(_shown(request)),
        "may_end": request.user.has_perm("auth.change_user"),
    }
    return TemplateResponse(request, "admin/msh/setup/sessions.html", context)


def _end(request: HttpRequest) -> HttpResponse:
    chosen = request.POST.get("session", "")
    may_all = request.user.has_perm("auth.change_user")
    for one in _shown(request):
        if one.name == chosen and (one.own or may_all):
            one.row.delete()
            by = Actor(request.user.get_username(), "")
            record_access(one.user.get_username(), "session ended", one.address, by)
            messages.success(request, f"The session of {one.user} is ended.")
            break
    else:
        messages.error(request, "Nothing was done: the session has ended already.")
    return HttpResponseRedirect(reverse("sessions"))


def _shown(request: HttpRequest) -> Iterator[Open]:
    rows = Session.objects.filter(expire_date__gt=timezone.now()).order_by("-expire_date")[:MOST]
    read = [(row, row.get_decoded()) for row in rows]
    users = User.objects.in_bulk(
        [int(data[SESSION_KEY]) for _, data in read if SESSION_KEY in data]
    )
    sees_all = request.user.has_perm("auth.view_user")
    for row, data in read:
        user = users.get(int(data.get(SESSION_KEY, 0)))
        if user is not None and (sees_all or user.pk == request.user.pk):
            yield Open(
                row,
                sha256(row.session_key.encode()).hexdigest(),
                user,
                _time(data.get(SINCE)),
                _time(data.get(SEEN)),
                data.get(ADDRESS, ""),
                user.pk == request.user.pk,
            )


def _time(stamp: float | None) -> datetime | None:
    return datetime.fromtimestamp(stamp, UTC) if stamp else None
