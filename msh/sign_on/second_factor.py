"""A second factor beside the password: codes of an app (TOTP), and recovery codes. The secrets are
django-allauth's rows, encrypted by MSH_FERNET_KEYS.

Codes of the app are checked here, and not by django-allauth: it remembers which were used, and how
many were wrong, in the memory of one web process, and takes a code that is older than the last one.
"""

import base64
import hmac
import secrets
import struct
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from msh.admin.framework.sessions import end_sessions_of
from partners import secrecy

from . import store

PERIOD = 30  # seconds of a code; apps know no other
RECOVERY_CODES = 10
ALL = "all"
"""In MSH_SECOND_FACTOR: every user."""
_LAST = "last_counter"
"""Of the row of an app: the half minute whose code was taken. None before it is taken any more, on
whichever web process: somebody may have seen it."""

_WRONG, _SINCE = "wrong", "wrong_since"
"""Of the same row: wrong codes since the last right one, and the time of the first of them."""
MOST_WRONG, WITHIN = 10, 15 * 60
"""Wrong codes, and seconds: of a user, from whatever address."""


class TooManyWrong(Exception):
    def __init__(self, until: datetime) -> None:
        super().__init__(until)
        self.until = until


class Adapter(DefaultMFAAdapter):
    def encrypt(self, text: str) -> str:
        return secrecy.encrypt(text)

    def get_totp_issuer(self) -> str:
        """Return what the app calls us."""
        return f"MSH {urlsplit(settings.MSH_CONSOLE_URL).hostname}"

    def decrypt(self, encrypted_text: str) -> str:
        return secrecy.decrypt(encrypted_text)


def must_have(user: User) -> bool:
    """Whether the user must have one. A superuser has every role."""
    roles = settings.MSH_SECOND_FACTOR
    if not roles:
        return False
    return ALL in roles or user.is_superuser or user.groups.filter(name__in=roles).exists()


def has(user: User) -> bool:
    return device_of(user) is not None


def device_of(user: User) -> int | None:
    """Return what stands for the user's app until it is removed."""
    return store.app_of(user)


@transaction.atomic
def accepts(user: User, code: str) -> str:
    """Return what the code is of, in words; empty if it is of nothing. A recovery code is used up.
    Raises TooManyWrong; the code is not looked at then."""
    rows = store.lock_rows(user)
    apps = [row for row in rows if store.is_app(row)]
    for app in apps:
        if _wrong(app) >= MOST_WRONG:
            raise TooManyWrong(datetime.fromtimestamp(app.data[_SINCE] + WITHIN, UTC))
    taken = next((taken for row in rows if (taken := _taken(row, code))), "")
    for app in apps:
        _count(app, wrong=not taken)
    return taken


def _taken(row: Any, code: str) -> str:
    if not store.is_app(row):
        return "a recovery code" if store.use_recovery_code(row, "".join(code.split())) else ""
    counter = _counter_of(secrecy.decrypt(row.data[store.SECRET]), code)
    if counter <= row.data.get(_LAST, 0):
        return ""
    row.data[_LAST], row.last_used_at = counter, timezone.now()
    return "a code of the app"


def _count(app: Any, *, wrong: bool) -> None:
    """Count the code, and save the row."""
    if not wrong:
        app.data.pop(_WRONG, None)
    elif known := _wrong(app):
        app.data[_WRONG] = known + 1
    else:
        app.data |= {_WRONG: 1, _SINCE: int(time.time())}
    store.write_use(app)


def _wrong(row: Any) -> int:
    """Return how many codes in a row were wrong, of the last WITHIN seconds."""
    recent = time.time() < row.data.get(_SINCE, 0) + WITHIN
    return int(row.data.get(_WRONG, 0)) if recent else 0


def new_secret() -> str:
    return base64.b32encode(secrets.token_bytes(20)).decode()


def picture(user: User, secret: str) -> str:
    """Return an SVG that the app reads."""
    adapter = get_adapter()
    svg: str = adapter.build_totp_svg(adapter.build_totp_url(user, secret))
    return svg


@transaction.atomic
def activate(user: User, secret: str, code: str) -> list[str]:
    """Store the secret, and return recovery codes; none if the code is not one of the secret."""
    counter = _counter_of(secret, code)
    if has(user) or not counter:
        return []
    codes: set[str] = set()
    while len(codes) < RECOVERY_CODES:
        codes.add(f"{secrets.randbelow(10**8):08}")
    app = {store.SECRET: secrecy.encrypt(secret), _LAST: counter}
    store.insert_rows(user, app, map(secrecy.encrypt, codes))
    return list(codes)


def _counter_of(secret: str, code: str) -> int:
    """Return the half minute, this one or one beside it, whose code it is; else 0."""
    typed = "".join(code.split()).encode()
    this = int(time.time()) // PERIOD
    for counter in (this - 1, this, this + 1):
        if hmac.compare_digest(_code(secret, counter).encode(), typed):
            return counter
    return 0


def _code(secret: str, counter: int) -> str:
    """Return the code as the app computes it (RFC 6238)."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", counter), "sha1")
    (number,) = struct.unpack_from(">I", digest, digest[-1] & 15)
    return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"


def remove(user: User, keep: str | None = None) -> bool:
    """Remove it, and return whether there was one. The user's sessions end, but the one with the
    key `keep`: whoever has them could set up a device of his own."""
    end_sessions_of(user, keep)
    return store.delete_rows(user)
