"""The partner of a row, as far as sending to it and receiving from it need it."""

from dataclasses import dataclass

from django.db import DEFAULT_DB_ALIAS

from partners.models import Identity, Partner

ROUTE_COLUMNS = """
    partner.id AS partner_id, partner.our_uri, partner.uri, partner.address,
    partner.error_address, partner.outgoing_kind, partner.outgoing_secret,
    partner.ca_certificates, partner.client_certificate, partner.http_proxy,
    partner.http_proxy_secret,
    own.msh_uri AS own_uri, own.error_uri AS own_error_uri
"""
"""Columns of tables called `partner` and `own` (the one row of our identity, if there is one)."""

AS_READ = """
    concat_ws(' ', credential.xmin, partner.xmin, own.xmin,
              extract(epoch FROM pg_postmaster_start_time()))
"""
"""The version of a partner: it changes with every change of its credential, itself or our own
identity; and when the server was started again: after a restore or a failover, transactions get the
same numbers once more as those that this process has cached. A pooler hides that from us."""

PARTNER_AS_READ = f"""
    (SELECT {AS_READ}
     FROM partners_credential credential
     JOIN partners_partner partner ON partner.id = credential.partner_id
     LEFT JOIN partners_ownidentity own ON true
     WHERE credential.id = %(credential_id)s AND partner.id = link.partner_id) AS as_read
"""
"""The versions of the rows that a partner was read from: equal to `Partner.as_read` if it has not
changed since it was found by this credential."""


PARTNER_IN_VERSION = f"""
    %(as_read)s = (
        SELECT {AS_READ}
        FROM partners_credential credential
        JOIN partners_partner partner ON partner.id = credential.partner_id
        LEFT JOIN partners_ownidentity own ON true
        WHERE credential.id = %(credential_id)s AND partner.id = %(partner_id)s)
"""
"""The condition that the partner has this version, for a statement that writes only then."""


_FIELDS = (
    *("our_uri", "uri", "address", "error_address", "outgoing_kind", "outgoing_secret"),
    *("ca_certificates", "client_certificate", "http_proxy", "http_proxy_secret"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteColumns:
    """A row with ROUTE_COLUMNS."""

    partner_id: int
    our_uri: str
    uri: str
    address: str
    error_address: str
    outgoing_kind: str
    outgoing_secret: str
    ca_certificates: str
    client_certificate: str
    http_proxy: str
    http_proxy_secret: str
    own_uri: str | None
    own_error_uri: str | None

    @property
    def partner(self) -> Partner:
        values = [self.partner_id, *(getattr(self, name) for name in _FIELDS)]
        return Partner.from_db(DEFAULT_DB_ALIAS, ("id", *_FIELDS), values)

    @property
    def identity(self) -> Identity:
        return Identity.given(self.own_uri, self.own_error_uri)
