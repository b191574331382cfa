"""The log of changes to the configuration: who, what, from what to what, and why. Also the lock of
a row while it is changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Model, QuerySet
from django.utils.text import capfirst

from msh.allowance import group_of
from msh.models import SettingChange
from msh.store.clock import read_clock
from msh.store.history import Actor
from partners.models import Agreement, Channel, Credential, Partner

_SECRETS = {
    "password",
    "secret",
    "outgoing_secret",
    "http_proxy_secret",
    "sha256",
    "url_secret",
    "key_secret",
    "signing_secrets",
}
_NOT_SHOWN = "(not shown)"
ACCESS = "Log-in"
"""The kind of entry that says who came in."""
EXPORT = "Export"
"""The kind of entry that says who took a list away."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of what is set up, as it was: values by the name of their field."""

    kind: str
    name: str
    values: Mapping[str, Any]


Snapshot = Mapping[tuple[str, int], Setting]
"""Rows of what is set up, by table and row id."""


def snapshot(*rows: QuerySet[Any]) -> Snapshot:
    found = (row for some in rows for row in some.select_related())
    return {(row._meta.db_table, row.pk): _setting(row) for row in found}  # noqa: SLF001  public


def lock_to_change(row: Model) -> None:
    """Read the row again, and keep others from writing it until the transaction ends: a page saves
    all columns, also those that it does not show. Raises DoesNotExist.

    The table first: `setup` keeps everybody from writing it. If that came after the lock of the
    row, each would wait for the other.
    """
    table = connection.ops.quote_name(row._meta.db_table)  # noqa: SLF001  public
    with transaction.atomic(savepoint=False):
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
        manager = type(row)._base_manager  # noqa: SLF001  public
        row.refresh_from_db(from_queryset=manager.select_for_update(no_key=True))


def record_changes(before: Snapshot, after: Snapshot, actor: Actor) -> None:
    changes = [
        _change(key, before, after, actor)
        for key in {**before, **after}
        if before.get(key) != after.get(key)
    ]
    SettingChange.objects.bulk_create(changes, batch_size=1000)


def _setting(row: Model) -> Setting:
    meta = row._meta  # noqa: SLF001  public
    fields = [field for field in meta.concrete_fields if field.editable or field.name in _SECRETS]
    values = {field.name: _value(row, field) for field in fields}
    many = {field.name: _names(getattr(row, field.name)) for field in meta.many_to_many}
    return Setting(capfirst(str(meta.verbose_name)), _name_of(row), values | many)


def _name_of(row: Model) -> str:
    """Agreements and credentials are called the same at several partners."""
    if isinstance(row, Agreement | Credential):
        return f"{row} of {row.partner.name}"
    if isinstance(row, Channel):
        return f"{row} of {row.agreement} of {row.agreement.partner.name}"
    return row.name if isinstance(row, Partner) else str(row)


def _value(row: Model, field: Any) -> Any:
    if not field.is_relation:
        return field.value_from_object(row)
    related = getattr(row, field.name)
    return None if related is None else str(related)


def _names(related: Any) -> list[str]:
    return sorted(str(one) for one in related.all())


def _change(key: tuple[str, int], before: Snapshot, after: Snapshot, actor: Actor) -> SettingChange:
    what = SettingChange.What
    row = after.get(key) or before[key]
    was, now = (side[key].values if key in side else {} for side in (before, after))
    different = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return SettingChange(
        actor=actor.name,
        reason=actor.reason,
        what=what.ADDED if not was else what.CHANGED if now else what.REMOVED,
        kind=row.kind,
        name=row.name,
        before={name: _shown(name, was[name]) for name in different if name in was},
        after={name: _shown(name, now[name]) for name in different if name in now},
    )


def _shown(name: str, value: object) -> Any:
    return _NOT_SHOWN if value and name in _SECRETS else value


def record_export(name: str, what: Mapping[str, object], actor: Actor) -> None:
    """That the rows of a list were taken away: format, filters and number of rows."""
    SettingChange.objects.create(
        actor=actor.name,
        what=SettingChange.What.ADDED,
        kind=EXPORT,
        name=name,
        before={},
        after=dict(what),
        reason=actor.reason,
    )


LOGGED_IN = "logged in"
"""How the events of log-ins begin."""
FAMILIAR = timedelta(days=30)
"""For which an address is known as that of a user who has logged in from it."""
MOST_FAMILIAR = 10_000
REFUSED = "refused: wrong name or password"
LATELY = timedelta(hours=1)
OF_ADDRESS, OF_ALL = 5, 100
"""Refused log-ins that are recorded within that time: of one address, and of all."""


def may_record_refusal(address: str) -> bool:
    """Whether this one is an entry of the audit log, which nobody may empty for a year."""
    newest = SettingChange.objects.order_by("-pk").values_list("at", "kind", "after")
    since = read_clock() - LATELY
    refused = [
        group_of(after["address"])
        for at, kind, after in newest[: 2 * OF_ALL]
        if kind == ACCESS and after["event"] == REFUSED and at > since
    ]
    return len(refused) < OF_ALL and refused.count(group_of(address)) < OF_ADDRESS


def logged_in_lately() -> Iterator[tuple[str, str]]:
    """Names with the addresses, or networks, from which they have logged in: the newest ones."""
    entries = SettingChange.objects.filter(
        kind=ACCESS, after__event__startswith=LOGGED_IN, at__gt=read_clock() - FAMILIAR
    )
    newest = entries.order_by("-pk").values_list("name", "after__address")[:MOST_FAMILIAR]
    return ((name, group_of(address)) for name, address in newest)


def record_access(name: str, event: str, address: str, actor: Actor) -> None:
    """A log-in, log-out or refusal of the user `name`; `event` says which."""
    SettingChange.objects.create(
        actor=actor.name[:150],
        what=SettingChange.What.ADDED,
        kind=ACCESS,
        name=name[:500],
        before={},
        after={"event": event, "address": address},
        reason=actor.reason,
    )
