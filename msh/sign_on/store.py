"""The rows of second factors. They are django-allauth's; nothing else of ours reads or writes them.

`data` has the secrets, encrypted by MSH_FERNET_KEYS, under the names that django-allauth documents
for who moves from another library.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth.models import User
from django.db import transaction

SECRET, CODES = "secret", "migrated_codes"
"""Of the rows of an app and of recovery codes."""


def is_app(row: Any) -> bool:
    return bool(row.type == Authenticator.Type.TOTP)


def app_of(user: User) -> int | None:
    """Return the key of the row of the user's app; None without one."""
    apps = Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP)
    key: int | None = apps.values_list("pk", flat=True).first()
    return key


def recovery_codes_left(user: User) -> int:
    codes = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES)
    row = codes.first()
    return len(row.wrap().get_unused_codes()) if row else 0


def lock_rows(user: User) -> list[Any]:
    return list(Authenticator.objects.filter(user=user).select_for_update().order_by("pk"))


def use_recovery_code(row: Any, code: str) -> bool:
    """Use up the code, and return whether it was one that was left."""
    return bool(row.wrap().validate_code(code))


def write_use(row: Any) -> None:
    row.save(update_fields=["data", "last_used_at"])


def insert_rows(user: User, app: dict[str, object], codes: Iterable[str]) -> None:
    """Insert the row of an app, and that of recovery codes, which are encrypted already."""
    Authenticator.objects.create(user=user, type=Authenticator.Type.TOTP, data=app)
    kept = {CODES: list(codes)}
    Authenticator.objects.create(user=user, type=Authenticator.Type.RECOVERY_CODES, data=kept)


def delete_rows(user: User) -> bool:
    """Delete them, and return whether there were any."""
    return bool(Authenticator.objects.filter(user=user).delete()[0])


def kept_secrets() -> Iterator[tuple[str, str, int]]:
    """Yield name of the user, encrypted secret, and key of the row, of all users."""
    for row in Authenticator.objects.select_related("user").order_by("pk"):
        for token in [row.data[SECRET]] if is_app(row) else row.data[CODES]:
            yield row.user.get_username(), token, row.pk


@transaction.atomic
def replace_secret(key: int, old: str, new: str) -> int:
    row = Authenticator.objects.select_for_update().filter(pk=key).first()
    if row is None or old not in (text := json.dumps(row.data)):
        return 0
    row.data = json.loads(text.replace(old, new))
    row.save(update_fields=["data"])
    return 1
