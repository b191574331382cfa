"""The agreements under which messages are submitted and sent, with their partners."""

from collections.abc import Collection
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import prefetch_related_objects

from msh.store.engine import Statement, run
from partners.models import Agreement, Partner

_LEFT_OUT = {"contact", "phone", "notes"}
"""Columns of a partner that no submission needs. The ORM reads them where they are asked for."""
_OF_AGREEMENT = [field.attname for field in Agreement._meta.concrete_fields]  # noqa: SLF001  public
_OF_PARTNER = [
    field.attname
    for field in Partner._meta.concrete_fields  # noqa: SLF001
    if field.attname not in _LEFT_OUT
]

# The ORM needs five times as long to make this statement as all else that is done with it.
_FIND: Statement[dict[str, Any]] = Statement(
    f"""
    SELECT {", ".join(f"agreement.{name} AS agreement_{name}" for name in _OF_AGREEMENT)},
           {", ".join(f"partner.{name} AS partner_{name}" for name in _OF_PARTNER)}
    FROM partners_agreement agreement
    JOIN partners_partner partner ON partner.id = agreement.partner_id
    WHERE agreement.tpa_id = ANY(%(tpa_ids)s)
    ORDER BY agreement.id
    """,
    dict,
)


def is_retryable(agreement_id: int, codes: Collection[str]) -> bool:
    """Whether the agreement has a message sent again after one of these error codes (EB-067)."""
    agreements = Agreement.objects.filter(pk=agreement_id)
    return bool(codes) and agreements.filter(retryable_codes__overlap=list(codes)).exists()


def find_agreements(tpa_ids: Collection[str]) -> list[Agreement]:
    """Read the agreements with these TPAIds in one round trip, and their channels in another one,
    if there are any."""
    (rows,) = run(_FIND(tpa_ids=list(tpa_ids)))
    found = []
    for row in rows:
        values = [row[f"agreement_{name}"] for name in _OF_AGREEMENT]
        agreement = Agreement.from_db(DEFAULT_DB_ALIAS, _OF_AGREEMENT, values)
        values = [row[f"partner_{name}"] for name in _OF_PARTNER]
        agreement.partner = Partner.from_db(DEFAULT_DB_ALIAS, _OF_PARTNER, values)
        found.append(agreement)
    if with_channels := [one for one in found if one.has_channels]:
        prefetch_related_objects(with_channels, "channels")
    return found
