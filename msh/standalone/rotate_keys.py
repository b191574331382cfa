"""Secrets that are kept encrypted, under the key that encrypts now: then older keys can go."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Manager

from msh.models import Consumer
from partners import secrecy
from partners.models import Partner


@dataclass(frozen=True, slots=True)
class Rotated:
    """`unreadable`: whose key is not among MSH_FERNET_KEYS. They are as they were."""

    rotated: int
    current: int
    unreadable: list[str]


def rotate_keys() -> Rotated:
    """May be repeated, and run while the MSH does: a secret that is changed meanwhile is left."""
    rotated, current, unreadable = 0, 0, []
    for objects, column, key, name, token in _kept():
        try:
            new = secrecy.rotate(token)
        except secrecy.SecretUnreadableError:
            unreadable.append(name)
            continue
        if new == token:
            current += 1
        else:
            rotated += objects.filter(pk=key, **{column: token}).update(**{column: new})
    return Rotated(rotated, current, unreadable)


def _kept() -> Iterator[tuple[Manager[Any], str, int, str, str]]:
    places: list[tuple[str, Manager[Any], str]] = [
        ("partner", Partner.objects, "outgoing_secret"),
        ("consumer", Consumer.objects, "secret"),
    ]
    for what, objects, column in places:
        rows = objects.exclude(**{column: ""}).order_by("pk").values_list("pk", "name", column)
        for key, name, token in rows.iterator():
            yield objects, column, key, f"{what} {name}", token
