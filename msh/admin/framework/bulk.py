"""Who may begin which bulk job, and the address of its preview."""

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

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


def bulk_url(request: HttpRequest, action: BulkAction, **chosen: str) -> str:
    """Of the preview of a job for these rows; empty if this user may not start it."""
    if not request.user.has_perms((*START_PERMISSIONS, *ROW_PERMISSIONS[action])):
        return ""
    return f"{reverse('admin:msh_bulkjob_new')}?{urlencode({'action': action.value, **chosen})}"
