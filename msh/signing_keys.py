"""Our own keys for signatures, read from files, never from the database (EB-178).

MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each. Two of them overlap while we
change ours: partners pin the successor before it signs.
"""

from django.conf import settings
from django.utils import timezone

from msh.key_files import KeyFiles
from msh.pem import KeyUnusable, SigningKey, signing_key, valid_at

_files = KeyFiles("signatures", signing_key)


def our_keys() -> tuple[SigningKey, ...]:
    """All of them, none if none is set. Raises KeyUnusable as `KeyFiles`."""
    keys, certificates = settings.MSH_SIGNING_KEY, settings.MSH_SIGNING_CERTIFICATE
    if len(keys) != len(certificates):
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each")
    return _files.read(list(zip(keys, certificates, strict=True)))


def our_key() -> SigningKey:
    """The one to sign with now. Raises KeyUnusable as `our_keys`, and if there is none."""
    keys = our_keys()
    if not keys:
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE are not set")
    if (valid := valid_at(keys, timezone.now())) is None:
        raise KeyUnusable("no certificate of MSH_SIGNING_CERTIFICATE is valid now")
    return valid


def why_no_key() -> str:
    """Empty if we can sign."""
    try:
        our_key()
    except KeyUnusable as problem:
        return str(problem)
    return ""
