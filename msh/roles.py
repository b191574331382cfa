"""The permissions of each role of the console. A role is a group of Django's permissions.

Every row is granted once: what administrators take away or add stays as they left it, and a
permission that a later version brings is granted when that version is installed.
"""

from collections.abc import Iterable

from django.apps import apps
from django.contrib.auth.models import Group, Permission

from msh.models import AppliedDefault

_TRAFFIC = (
    *("actrequest", "alertrecipient", "bulkjob", "consumer", "delivery", "history"),
    *("inboundconversation", "inboundlink", "inboundmessage", "incident", "keyrule"),
    *("maintenancewindow", "operatornotice", "outboundconversation", "outboundlink"),
    *("outboundmessage", "signal", "statistics", "webhook"),
)
_CONFIGURATION = ("agreement", "channel", "credential", "ownidentity", "partner", "route")
_SCHEDULE = ("crontabschedule", "intervalschedule", "periodictask")

VIEWER = frozenset(
    {
        *(f"msh.view_{name}" for name in _TRAFFIC),
        *(f"partners.view_{name}" for name in _CONFIGURATION),
    }
)
"""Sees everything but payloads and the whole audit log: only the entries of each row, on its page
*History*."""

OPERATOR = VIEWER | {
    "msh.assign_incident",
    "msh.decide_delivery",
    "msh.reset_retries_outboundlink",
    "msh.resolve_incident",
    "msh.resume_outboundlink",
    "msh.send_now_outboundlink",
    "msh.suspend_outboundlink",
    "msh.view_payload_inboundmessage",
    "msh.view_payload_outboundmessage",
}
"""Keeps messages going. Nothing of this ends a message or changes a number."""

SUPERVISOR = OPERATOR | {
    "msh.act_alone_actrequest",
    "msh.allow_reset_inboundlink",
    "msh.bulk_bulkjob",
    "msh.cancel_outboundlink",
    "msh.confirm_actrequest",
    "msh.correct_outboundmessage",
    "msh.expect_inboundlink",
    "msh.replay_delivery",
    "msh.hold_resets_inboundlink",
    "msh.reset_sequence_outboundlink",
    "msh.resynchronise_outboundlink",
    "msh.rewind_outboundlink",
    "msh.take_back_refusal_signal",
    "msh.view_settingchange",
    "partners.switch_partner",
}
"""Cancels and corrects messages, repairs sequence numbers, acts on many rows at once."""

ADMINISTRATOR = SUPERVISOR | {
    *(f"msh.{act}_apitoken" for act in ("view", "add", "delete")),
    "msh.submit_outboundmessage",
    "msh.delete_savedfilter",
    "msh.take_delivery",
    *(
        f"msh.{act}_{name}"
        for name in ("alertrecipient", "consumer", "keyrule", "webhook")
        for act in ("add", "change", "delete")
    ),
    *(f"partners.{act}_{name}" for name in _CONFIGURATION for act in ("add", "change", "delete")),
    *(
        f"django_celery_beat.{act}_{name}"
        for name in _SCHEDULE
        for act in ("view", "add", "change", "delete")
    ),
    *(f"auth.{act}_{name}" for name in ("group", "user") for act in ("view", "add", "change")),
}
"""Configures partners, consumers, users and the schedule."""

ROLES = {
    "Viewer": VIEWER,
    "Operator": OPERATOR,
    "Supervisor": SUPERVISOR,
    "Administrator": ADMINISTRATOR,
}


def role_with(permissions: Iterable[str]) -> str:
    """The first role, from the least to the most powerful, that has them all; empty if none has."""
    wanted = set(permissions)
    return next((role for role, granted in ROLES.items() if wanted <= granted), "")


def apply_roles() -> None:
    """Create the roles, and grant what this version grants and no earlier one did. Permissions of a
    feature that is left out are granted when it is installed.

    Raises LookupError if a permission named here does not exist.
    """
    wanted = {
        f"role {role}: {name}": (role, name)
        for role, names in ROLES.items()
        for name in names
        if _has_model(name)
    }
    new = [wanted[key] for key in AppliedDefault.objects.mark_new(wanted)]
    if not new:
        return
    known = {
        f"{one.content_type.app_label}.{one.codename}": one
        for one in Permission.objects.select_related("content_type")
    }
    for role in ROLES:
        names = {name for of, name in new if of == role}
        if missing := names - known.keys():
            raise LookupError(f"no permission {sorted(missing)}: see {__name__}")
        if names:
            group, _ = Group.objects.get_or_create(name=role)
            group.permissions.add(*(known[name] for name in names))


def _has_model(permission: str) -> bool:
    """Whether the model is loaded: that of a feature which is left out is not."""
    app, _, codename = permission.partition(".")
    return codename.rpartition("_")[2] in apps.all_models[app]
