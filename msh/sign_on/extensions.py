"""The secrets of second factors are kept under the newest key, like all others."""

from collections.abc import Iterator
from functools import partial

from msh.flows.operations import rotate_keys

from . import store


@rotate_keys.kept_secrets.register
def kept_secrets() -> Iterator[rotate_keys.Kept]:
    for name, token, key in store.kept_secrets():
        yield f"user {name}", token, partial(store.replace_secret, key, token)
