"""Our own keys for signatures, read from files, never from the database (EB-178).

MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each. Two of them overlap while we
change ours: partners pin the successor before it signs. Keys of RSA and of EC may stand beside
each other: which of them signs, the algorithm of an agreement says.
"""

from django.conf import settings
from django.utils import timezone

from msh.key_files import KeyFiles
from msh.pem import KeyUnusable, SigningKey, signing_key, valid_at
from msh.protocol.ebms.signature import ALGORITHMS, USUAL

_files = KeyFiles("signatures", signing_key)


def our_keys() -> tuple[SigningKey, ...]:
    """All of them, none if none is set. Raises KeyUnusable as `KeyFiles`."""
    keys, certificates = settings.MSH_SIGNING_KEY, settings.MSH_SIGNING_CERTIFICATE
    if len(keys) != len(certificates):
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE name as many files each")
    return _files.read(list(zip(keys, certificates, strict=True)))


def our_key(algorithm: str = USUAL) -> SigningKey:
    """The one to sign with now, by this algorithm. Raises KeyUnusable as `our_keys`, and if there
    is none."""
    keys = our_keys()
    if not keys:
        raise KeyUnusable("MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE are not set")
    fitting = [one for one in keys if one.kind == ALGORITHMS[algorithm].key]
    if not fitting:
        raise KeyUnusable(_unfit(algorithm))
    if (valid := valid_at(fitting, timezone.now())) is None:
        raise KeyUnusable("no certificate of MSH_SIGNING_CERTIFICATE is valid now")
    return valid


def _unfit(algorithm: str) -> str:
    return f"{algorithm} needs an {ALGORITHMS[algorithm].key} key, and MSH_SIGNING_KEY names none"


def why_no_key(algorithm: str = USUAL) -> str:
    """Empty if we can sign by this algorithm."""
    try:
        our_key(algorithm)
    except KeyUnusable as problem:
        return str(problem)
    return ""


def why_unfit(algorithm: str) -> str:
    """Why none of our keys is of the kind that it needs; empty without any keys, too, which may
    still come."""
    try:
        kinds = {one.kind for one in our_keys()}
    except KeyUnusable:  # a check says so
        return ""
    return _unfit(algorithm) if kinds and ALGORITHMS[algorithm].key not in kinds else ""
