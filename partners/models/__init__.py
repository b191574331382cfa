"""Partners, their credentials, the agreements with them and the channels of these, routes, and our
own identity."""

from .agreement import Agreement
from .channel import Channel
from .credential import SECRET_LENGTH, Credential, CredentialKind, digest_of
from .dialects import Dialect
from .identity import Identity, OwnIdentity, our_identity
from .partner import Partner
from .route import Route

__all__ = [
    "SECRET_LENGTH",
    "Agreement",
    "Channel",
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
