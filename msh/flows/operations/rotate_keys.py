"""Secrets that are kept encrypted, under the key that encrypts now: then older keys can go."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.models import Manager

from msh.extension import ExtensionPoint
from msh.models import Consumer, Webhook
from partners import secrecy
from partners.models import Partner

Replace = Callable[[str], int]
"""Puts this in the place of the token if it is still there; how many rows were changed."""
Kept = tuple[str, str, Replace]
"""Whose secret it is, its token, and what replaces it."""
kept_secrets: ExtensionPoint[Callable[[], Iterator[Kept]]] = ExtensionPoint()
"""Those that a feature keeps."""


@dataclass(frozen=True, slots=True)
class Rotated:
    """`unreadable`: whose key is not among MSH_FERNET_KEYS. They are as they were."""

    rotated: int
    current: int
    unreadable: list[str]


def rotate_keys() -> Rotated:
    """May be repeated, and run while the MSH does: a secret that is changed meanwhile is left."""
    rotated, current, unreadable = 0, 0, []
    for name, token, replace in _kept():
        try:
            new = secrecy.rotate(token)
        except secrecy.SecretUnreadableError:
            if name not in unreadable:
                unreadable.append(name)
            continue
        if new == token:
            current += 1
        else:
            rotated += replace(new)
    return Rotated(rotated, current, unreadable)


def _kept() -> Iterator[Kept]:
    for column in ("outgoing_secret", "http_proxy_secret"):
        yield from kept_in("partner", Partner.objects, column)
    for column in ("secret", "signing_secrets"):
        yield from kept_in("consumer", Consumer.objects, column)
    yield from kept_in("webhook", Webhook.objects, "signing_secrets")
    for secrets in kept_secrets:
        yield from secrets()


def kept_in(what: str, objects: Manager[Any], column: str) -> Iterator[Kept]:
    rows = objects.exclude(**{column: ""}).order_by("pk").values_list("pk", "name", column)
    for key, name, token in rows.iterator():
        yield f"{what} {name}", token, partial(_replace, objects, column, key, token)


def _replace(objects: Manager[Any], column: str, key: int, old: str, new: str) -> int:
    return objects.filter(pk=key, **{column: old}).update(**{column: new})
