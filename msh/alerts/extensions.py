"""Notices go out by the clock. The secrets of recipients are kept under the newest key, like all
others."""

from collections.abc import Iterator

from msh.flows.operations import rotate_keys, sweeps

from .flows.notify_operators import notify_operators
from .models import AlertRecipient

sweeps.for_notices.register(notify_operators)


@rotate_keys.kept_secrets.register
def kept_secrets() -> Iterator[rotate_keys.Kept]:
    for column in ("url_secret", "key_secret", "signing_secrets"):
        yield from rotate_keys.kept_in("alert recipient", AlertRecipient.objects, column)
