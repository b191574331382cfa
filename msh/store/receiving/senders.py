"""Find the sender: the partner whose credential is in an Authorization header, or whose client
certificate a proxy has named. Where both are shown, both must be of one partner (EB-188)."""

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from msh.allowance import Known
from msh.store.cache import Cache
from msh.store.engine import Statement, run
from msh.store.partner_columns import AS_READ
from msh.wire.dialect import dialect_by_network
from partners.models import Partner
from partners.models.credential import CredentialKind, presented
from partners.models.partner import known_by_network

_Shown = tuple[CredentialKind, str]
_cached: Cache[_Shown, Partner] = Cache()

_FOR_PEOPLE = {"contact", "phone", "notes"}
_FIELDS = [
    field.attname
    for field in Partner._meta.concrete_fields  # noqa: SLF001  public
    if field.attname not in _FOR_PEOPLE
]

# `default_uri`, `credential_id` and `as_read` are no columns of the partner, but are kept with it.
_FIND: Statement[dict[str, Any]] = Statement(
    f"""
    SELECT {", ".join(f"partner.{name}" for name in _FIELDS)},
           COALESCE(NULLIF(own.msh_uri, ''), %(our_uri)s) AS default_uri,
           credential.id AS credential_id, {AS_READ} AS as_read
    FROM partners_credential credential
    JOIN partners_partner partner ON partner.id = credential.partner_id
    LEFT JOIN partners_ownidentity own ON true
    WHERE credential.sha256 = %(digest)s AND credential.kind = %(kind)s
    """,
    dict,
)


@dataclass(frozen=True, slots=True)
class _Digest:
    sha256: str


_CREDENTIALS = Statement("SELECT sha256 FROM partners_credential", _Digest)


def find_sender(authorization: str, certificate: str = "") -> Partner | None:
    """The partner whose credential this header shows, with our default URI, by one indexed query.
    The result is cached. `certificate`: its SHA-256 in hex; empty if there is none."""
    found = [_find(shown) for shown in _shown(authorization, certificate)]
    first = found[0] if found else None
    is_one = first is not None and all(each == first for each in found)
    return first if is_one else None


def _shown(authorization: str, certificate: str) -> list[_Shown | None]:
    """All of it; None is what cannot be a credential."""
    by_certificate = [(CredentialKind.CERTIFICATE, certificate)] if certificate else []
    return [*([presented(authorization)] if authorization else []), *by_certificate]


def _find(shown: _Shown | None) -> Partner | None:
    if shown is None:
        return None
    kind, digest = shown
    (rows,) = run(_FIND(our_uri=settings.MSH_URI, digest=digest, kind=kind))
    if not rows:
        _cached.pop(shown, None)
        return None
    (row,) = rows
    partner = Partner.from_db(DEFAULT_DB_ALIAS, _FIELDS, [row[name] for name in _FIELDS])
    partner.default_uri = row["default_uri"]
    partner.credential_id = row["credential_id"]
    partner.as_read = row["as_read"]
    _cached.put(shown, partner)
    return partner


def is_known(authorization: str, certificate: str = "") -> bool:
    """Whether this is the credential of a partner, or was some seconds ago."""
    shown = _shown(authorization, certificate)
    return bool(shown) and all(one is not None and one[1] in credentials for one in shown)


def is_known_login(user: bytes, password: bytes) -> bool:
    return is_known(_basic(user, password))


def _digests() -> list[str]:
    return [row.sha256 for row in run(_CREDENTIALS())[0]]


credentials = Known(_digests)


def find_senders_by_network(address: str, content_type: str) -> tuple[Partner, ...]:
    """The partners without credential whose networks show that a request without Authorization may
    be theirs. None if it is in no dialect that says which of them it is."""
    dialect = dialect_by_network(content_type)
    if dialect is None:
        return ()
    return tuple(one for one in known_by_network(dialect.name) if one.is_shown_by(address))


def cached_sender(authorization: str, certificate: str = "") -> Partner | None:
    """The partner that this process last found by this header, as it was then.

    It counts only together with a statement that finds its `as_read` unchanged, which is about one
    credential: None if two are shown.
    """
    if authorization and certificate:
        return None
    shown = (CredentialKind.CERTIFICATE, certificate) if certificate else presented(authorization)
    return _cached.get(shown) if shown else None


def find_sender_by_login(user: bytes, password: bytes) -> Partner | None:
    return find_sender(_basic(user, password))


def _basic(user: bytes, password: bytes) -> str:
    return f"Basic {b64encode(user + b':' + password).decode()}"
