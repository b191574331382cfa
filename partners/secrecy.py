"""Encryption of the credentials that we show to partners, so that a copy of the database is not
enough to use them."""

from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class SecretUnreadableError(Exception):
    """No key of MSH_FERNET_KEYS decrypts a kept secret."""


def encrypt(secret: str) -> str:
    """`secret` under the first of MSH_FERNET_KEYS, as ASCII."""
    return _fernet(tuple(settings.MSH_FERNET_KEYS)).encrypt(secret.encode()).decode()


def decrypt(token: str) -> str:
    """Return the text that `encrypt` was given. Any of MSH_FERNET_KEYS may be the key."""
    return _decrypted(tuple(settings.MSH_FERNET_KEYS), token)


@lru_cache(maxsize=10_000)
def _decrypted(keys: tuple[str, ...], token: str) -> str:
    """Cached: each POST to a partner needs its credential, and decrypting it costs a tenth of
    what claiming the message does."""
    try:
        return _fernet(keys).decrypt(token).decode()
    except InvalidToken:
        raise SecretUnreadableError(
            "The credential was encrypted with a key that is not in MSH_FERNET_KEYS: append that"
            " key to it, or enter the credential again."
        ) from None


def rotate(token: str) -> str:
    """`token` under the first of MSH_FERNET_KEYS: itself, if it is so already. Raises
    SecretUnreadableError."""
    try:
        _fernet(tuple(settings.MSH_FERNET_KEYS[:1])).decrypt(token)
    except InvalidToken:
        return encrypt(decrypt(token))
    return token


@lru_cache(maxsize=2)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
