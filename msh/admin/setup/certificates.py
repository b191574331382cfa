"""The certificates that `manage.py certificates` lists, with links to who uses them."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.views.decorators.http import require_safe

from msh.admin.framework import markup
from msh.admin.framework.pages import Table, at_once
from msh.flows.operations.certificates import (
    CLIENT,
    EARLY,
    VIEW_PERMISSIONS,
    Listed,
    certificates,
)
from partners.models import Agreement

MOST = 500
"""Certificates that are shown; the command lists all."""
MOST_USERS = 10
_HEADERS = (
    *("Whose", "For", "Until", "Used by"),
    *("Subject", "Issuer", "Serial, SHA-256", "Valid from"),
)


@require_safe
def certificates_page(request: HttpRequest) -> HttpResponse:
    if not request.user.has_perms(VIEW_PERMISSIONS):
        raise PermissionDenied
    return at_once(request, _page)


def _page(request: HttpRequest) -> HttpResponse:
    found, problems = certificates()
    found.sort(key=lambda one: one.until)
    now = timezone.now()
    rows = [_cells(one, now) for one in found[:MOST]]
    empty = "No certificate of ours or of a partner is set up."
    context = {
        **admin.site.each_context(request),
        "title": "Certificates",
        "beside": Agreement._meta,  # noqa: SLF001  public
        "problems": problems,
        "others": len(found) - len(rows),
        "tables": [Table("Those that end first", _HEADERS, rows, empty)],
    }
    return TemplateResponse(request, "admin/msh/setup/certificates.html", context)


def _cells(one: Listed, now: datetime) -> Sequence[object]:
    return (
        markup.link_to(one.partner) if one.partner else one.whose,
        ", ".join(one.uses),
        format_html(
            '<div>{}<div class="msh-note">{}</div></div>', _date(one.until), _left(one, now)
        ),
        _users(one),
        markup.verbatim(one.subject),
        markup.verbatim(one.issuer),
        format_html("{}<br>{}", markup.verbatim(one.serial), markup.verbatim(one.sha256)),
        _date(one.valid_from),
    )


def _date(at: datetime) -> str:
    return format_html(
        '<time datetime="{}" title="{}" class="msh-time">{}</time>',
        at.isoformat(),
        at.isoformat(sep=" "),
        f"{at:%Y-%m-%d}",
    )


def _left(one: Listed, now: datetime) -> str:
    """In words too: colours alone say nothing to who cannot see them."""
    if one.until < now:
        return format_html("{} {} ago", markup.badge("ended", "danger"), _days(now, one.until))
    if one.valid_from > now:
        badge = markup.badge("not valid yet", "info")
    elif one.until - now <= EARLY:
        badge = markup.badge("ends soon", "warning")
    else:
        badge = markup.badge("valid", "success")
    return format_html("{} {} left", badge, _days(one.until, now))


def _days(later: datetime, earlier: datetime) -> str:
    days = (later - earlier).days
    return f"{days} day{'' if days == 1 else 's'}" if days else "less than a day"


def _users(one: Listed) -> object:
    if one.shown_to:
        return _links([markup.link_to(partner) for partner in one.shown_to])
    if not one.agreements:
        if one.partner:
            return markup.link_to(one.partner)
        return "all other partners" if CLIENT in one.uses else markup.DASH
    return _links([markup.link_to(agreement, agreement.tpa_id) for agreement in one.agreements])


def _links(links: Sequence[str]) -> str:
    shown = format_html_join(", ", "{}", [(link,) for link in links[:MOST_USERS]])
    more = len(links) - MOST_USERS
    return format_html("{} and {} more", shown, more) if more > 0 else shown
