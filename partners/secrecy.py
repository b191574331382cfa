"""What we show to partners is kept encrypted, so that a copy of the database is not enough."""

from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings


class SecretUnreadableError(Exception):
    """No key of MSH_FERNET_KEYS decrypts a kept secret."""


def encrypt(secret: str) -> str:
    """`secret` under the first of MSH_FERNET_KEYS, as ASCII."""
    return _fernet(tuple(settings.MSH_FERNET_KEYS)).encrypt(secret.encode()).decode()


def decrypt(token: str) -> str:
    """What `encrypt` was given. Any of MSH_FERNET_KEYS may have been the key."""
    try:
        return _fernet(tuple(settings.MSH_FERNET_KEYS)).decrypt(token).decode()
    except InvalidToken:
        raise SecretUnreadableError(
            "The credential was encrypted with a key that is not in MSH_FERNET_KEYS:"
            " add that key to its end, or enter the credential again."
        ) from None


@lru_cache(maxsize=2)
def _fernet(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])
