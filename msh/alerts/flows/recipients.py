"""Alert recipients in the document of `manage.py setup`."""

from collections.abc import Mapping
from datetime import time
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError

from msh.alerts.models import AlertRecipient, shown_host
from partners.secrecy import SecretUnreadableError
from partners.setup import Setup

FIELDS: Mapping[str, type] = {
    **dict.fromkeys(("name", "channel", "addresses", "at_least"), str),
    **dict.fromkeys(("quiet_days", "quiet_all_day", "time_zone"), str),
    **dict.fromkeys(("enabled", "on_end", "critical_through"), bool),
    **dict.fromkeys(("step", "wait"), int),
}
"""By the names that the model has."""
SEVERITY = {"severity": "at_least"}
_KEYS = {
    **{field: key for key, field in SEVERITY.items()},
    "role_id": "role",
    "url_secret": "url",
    "host": "url",
    "key_secret": "key",
}
_CLOCK = ("quiet_from", "quiet_until")
_SECRETS = ("url", "key")
_READ: Mapping[str, type] = {
    **{_KEYS.get(name, name): kind for name, kind in FIELDS.items()},
    **dict.fromkeys((*_CLOCK, *_SECRETS, "role"), str),
    "partners": list,
}


def take_recipient(setup: Setup, path: str, document: object) -> None:
    """Add it, or update the one of this name with what the document says."""
    read = setup.read(path, document, _READ)
    name = setup.required(path, read, "name")
    found = AlertRecipient.objects.filter(name=name).first()
    recipient = found or AlertRecipient()
    values = {SEVERITY.get(key, key): read[key] for key in read if SEVERITY.get(key, key) in FIELDS}
    values |= _clock(setup, path, read) | _role(setup, path, read)
    values |= _secrets(setup, path, recipient, read)
    partners = setup.named_partners(path, read)
    if name and setup.keep(path, f"recipient {name}", recipient, values, _KEYS):
        setup.keep_partners(recipient, partners)


def _clock(setup: Setup, path: str, read: Mapping[str, Any]) -> dict[str, object]:
    """Return times of the clock; an empty text is none."""
    found: dict[str, object] = {}
    for key in _CLOCK:
        if key not in read:
            continue
        try:
            found[key] = time.fromisoformat(read[key]) if read[key] else None
        except ValueError:
            setup.problem(f"{path}.{key}", "write hours and minutes, such as 22:00.")
    return found


def _role(setup: Setup, path: str, read: Mapping[str, object]) -> dict[str, object]:
    if "role" not in read:
        return {}
    group = Group.objects.filter(name=read["role"]).first() if read["role"] else None
    if read["role"] and group is None:
        names = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
        setup.problem(f"{path}.role", f"there is no role {read['role']!r}. Roles: {names}.")
    return {"role_id": group.pk if group else None}


def _secrets(
    setup: Setup, path: str, recipient: AlertRecipient, read: Mapping[str, Any]
) -> dict[str, object]:
    """Return the fields of the URL and the key, if they change; an empty text removes one. A key is
    not sent to another host unless it is given again."""
    wanted, values = AlertRecipient(), dict[str, object]()
    try:
        wanted.post_to(read.get("url", ""))
    except ValidationError as problem:
        setup.problem(f"{path}.url", problem.messages[0])
        return {}
    wanted.show(read.get("key", ""))
    moves = "url" in read and shown_host(read["url"]) != recipient.host
    if moves and recipient.key_secret and "key" not in read:
        setup.problem(f"{path}.key", "the host changes: give the key again, or an empty text.")
        return {}
    if "url" in read and _other(recipient, wanted, "url"):
        values |= {"url_secret": wanted.url_secret, "host": wanted.host}
    if "key" in read and _other(recipient, wanted, "key"):
        values["key_secret"] = wanted.key_secret
    return values


def _other(recipient: AlertRecipient, wanted: AlertRecipient, what: str) -> bool:
    if not getattr(recipient, f"{what}_secret") or not getattr(wanted, f"{what}_secret"):
        return bool(getattr(recipient, f"{what}_secret") != getattr(wanted, f"{what}_secret"))
    try:
        return bool(getattr(recipient, what)() != getattr(wanted, what)())
    except SecretUnreadableError:
        return True
