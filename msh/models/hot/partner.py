"""Columns about the partner of a row."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS

from partners.models import Identity, Partner
from partners.models.partner import AS_READ

# A partner as far as sending to it needs one, and who we are: see `route_of`.
ROUTE_COLUMNS = """
    partner.id AS partner_id, partner.our_uri, partner.uri, partner.address,
    partner.error_address, partner.outgoing_kind, partner.outgoing_secret,
    own.msh_uri AS own_uri, own.error_uri AS own_error_uri
"""

# Whether the partner is as it was when it was found by this credential.
PARTNER_AS_READ = f"""
    (SELECT {AS_READ}
     FROM partners_credential credential
     JOIN partners_partner partner ON partner.id = credential.partner_id
     LEFT JOIN partners_ownidentity own ON true
     WHERE credential.id = %s AND partner.id = link.partner_id) AS as_read
"""


def route_of(row: Any) -> tuple[Partner, Identity]:
    """The partner and who we are, of a row with the columns of a route."""
    names = ("our_uri", "uri", "address", "error_address", "outgoing_kind", "outgoing_secret")
    values = [row.partner_id, *(getattr(row, name) for name in names)]
    partner = Partner.from_db(DEFAULT_DB_ALIAS, ("id", *names), values)
    return partner, Identity.given(row.own_uri, row.own_error_uri)
