"""Signatures of our POSTs to applications, by Standard Webhooks 1.0: the receiver can tell that a
request is ours, that nobody changed it, and when it was sent.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256

PREFIX = "whsec_"
SIZE = 32  # bytes of a new key
SMALLEST, LARGEST = 24, 64  # bytes of a key
KEYS = 2
"""So many keys sign at once, while receivers change from the old one to the new one."""
FRESH = 60.0
"""Seconds after which a signed request is not begun any more: receivers refuse one that is five
minutes old."""


def new_secret() -> str:
    """Return the text by which both sides know a key."""
    return PREFIX + b64encode(secrets.token_bytes(SIZE)).decode()


def key_of(secret: str) -> bytes:
    """Raises ValueError, which does not repeat the secret."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"A signing secret begins with {PREFIX}.")
    try:
        key = b64decode(secret[len(PREFIX) :], validate=True)
    except ValueError:
        raise ValueError(f"Behind {PREFIX} a signing secret is base64.") from None
    if not SMALLEST <= len(key) <= LARGEST:
        raise ValueError(f"A signing secret has {SMALLEST} to {LARGEST} bytes.")
    return key


def signed(
    signing: Sequence[str], identifier: str, body: bytes, *, now: float | None = None
) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request that is signed by each of these secrets; none without any.

    `identifier` is the same whenever the same is sent again; `now` is in seconds since 1970. A full
    stop, which separates what is signed, is percent-encoded in it.
    """
    if not signing:
        return ()
    named = identifier.replace(".", "%2E")
    at = str(int(time.time() if now is None else now))
    content = b".".join((named.encode(), at.encode(), body))
    digests = (hmac.new(key_of(secret), content, sha256).digest() for secret in signing)
    signatures = " ".join(f"v1,{b64encode(digest).decode()}" for digest in digests)
    return (("webhook-id", named), ("webhook-timestamp", at), ("webhook-signature", signatures))
