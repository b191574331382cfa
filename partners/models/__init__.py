"""Partners, their credentials, the agreements with them, their channels and CPAs, routes, and our
own identity."""

from .agreement import Agreement
from .channel import Channel
from .cpa import CpaDocument
from .credential import SECRET_LENGTH, Credential, CredentialKind, digest_of
from .dialects import Dialect
from .identity import Identity, OwnIdentity, our_identity
from .partner import Partner
from .route import Route

__all__ = [
    "SECRET_LENGTH",
    "Agreement",
    "Channel",
    "CpaDocument",
    "Credential",
    "CredentialKind",
    "Dialect",
    "Identity",
    "OwnIdentity",
    "Partner",
    "Route",
    "digest_of",
    "our_identity",
]
