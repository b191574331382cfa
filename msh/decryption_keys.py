"""Our own keys for what partners encrypt, read from files, never from the database (EB-185).

MSH_DECRYPTION_KEY names one or more: each of them decrypts, so that partners may change to a
successor whenever they like.
"""

from django.conf import settings

from msh.key_files import KeyFiles
from msh.pem import DecryptionKey, KeyUnusable, decryption_key

_files = KeyFiles("decryption", decryption_key)


def our_decryption_keys() -> tuple[DecryptionKey, ...]:
    """All of them, none if none is set. Raises KeyUnusable as `KeyFiles`."""
    return _files.read([(path,) for path in settings.MSH_DECRYPTION_KEY])


def why_no_decryption_key() -> str:
    """Empty if we can decrypt."""
    try:
        keys = our_decryption_keys()
    except KeyUnusable as problem:
        return str(problem)
    return "" if keys else "MSH_DECRYPTION_KEY is not set"
