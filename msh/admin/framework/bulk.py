"""Bulk jobs that this user may start, and the links to them from a list: for the rows that the list
shows by its own filters."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from unfold.admin import ModelAdmin

from msh.flows.operations import actions, link_actions
from msh.models import BulkAction

START_PERMISSIONS = actions.CANCEL_JOB.permissions
ROW_PERMISSIONS = {
    BulkAction.RESUME: link_actions.RESUME.permissions,
    BulkAction.RUN_AGAIN: actions.RUN_AGAIN.permissions,
    BulkAction.REPLAY: actions.REPLAY.permissions,
    BulkAction.SUBMIT_AGAIN: actions.SUBMIT_AGAIN.permissions,
    BulkAction.RESUME_MESSAGES: actions.RESUME_MESSAGE.permissions,
}
"""The permissions that the action needs on one row."""


def may_begin(request: HttpRequest, action: BulkAction) -> bool:
    return request.user.has_perms((*START_PERMISSIONS, *ROW_PERMISSIONS[action]))


def bulk_url(request: HttpRequest, action: BulkAction, **filters: str) -> str:
    """Return the URL of the preview of a job for the rows that the list shows by these filters;
    empty if this user may not start it."""
    if not may_begin(request, action):
        return ""
    return f"{reverse('admin:msh_bulkjob_new')}?{urlencode({'action': action.value, **filters})}"


class BulkPage(ModelAdmin):
    """A list on whose rows, as it is filtered, a bulk job can be begun."""

    bulk: tuple[BulkAction, ...] = ()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        given = {name: str(value) for name, value in request.GET.items()}
        filters = {name: value for name, value in given.items() if value and name != "p"}
        urls = {action.label: bulk_url(request, action, **filters) for action in self.bulk}
        extra = {**(extra_context or {}), "bulk": {name: url for name, url in urls.items() if url}}
        response: HttpResponse = super().changelist_view(request, extra)
        return response
