"""Partners, agreements and routes as the document that `setup.apply` takes, without secrets; and
what such a document would change, before it does."""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from django.db import connection, transaction
from django.db.models import Model

from partners import setup
from partners.models import Agreement, Channel, CredentialKind, OwnIdentity, Partner, Route
from partners.models.dialects import Dialect

_SAME: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Preview:
    """`seen` is a digest of the configuration as it is, `diff` are the lines that would change."""

    report: setup.Report
    seen: str
    diff: tuple[str, ...]


def exported() -> dict[str, Any]:
    own = OwnIdentity.objects.first()
    partners = Partner.objects.order_by("name").prefetch_related(
        "agreements__channels", "credentials"
    )
    routes = Route.objects.select_related("partner").order_by("to_party", "to_party_context")
    return {
        **(_values(own, setup.OWN) if own else {}),
        "partners": [
            _values(partner, setup.PARTNER, setup.FIELDS)
            | _certificates_of(partner)
            | {"agreements": [_agreement(each) for each in _sorted(partner)]}
            for partner in partners
        ],
        "routes": [
            _values(route, setup.ROUTE) | {"partner": route.partner.name} for route in routes
        ],
    }


def _certificates_of(partner: Partner) -> dict[str, str]:
    """The client certificates that it shows, which are no secrets."""
    shown = [
        one.pem or one.sha256
        for one in partner.credentials.all()
        if one.kind == CredentialKind.CERTIFICATE
    ]
    return {"certificate_in": "\n".join(shown)} if shown else {}


def as_text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def preview(document: object) -> Preview:
    """Return what `document` would change; nothing is changed. Raises setup.SetupRefused."""
    with transaction.atomic():
        before = as_text(exported())
        report = setup.apply(document)
        after = as_text(exported())
        transaction.set_rollback(True)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "now", "then", "", "", 3)
    return Preview(report, _digest_of(before), tuple(line.rstrip("\n") for line in lines))


def digest() -> str:
    """Return the digest of the current configuration, like `Preview.seen`."""
    return digest_of(exported())


def digest_of(document: object) -> str:
    """The digest of a configuration that was `exported`."""
    return _digest_of(as_text(document))


def keep_others_from_writing(*more: type[Model]) -> None:
    """Until the transaction ends, also the tables `more`. Others can read, and write rows that
    refer to these."""
    # In this order: who writes a channel writes its agreement after it.
    models: tuple[type[Model], ...] = (Partner, Channel, Agreement, Route, OwnIdentity, *more)
    tables = ", ".join(model._meta.db_table for model in models)  # noqa: SLF001  public
    with connection.cursor() as cursor:
        # Autovacuum gives way after deadlock_timeout, on a busy machine later than a lock_timeout.
        cursor.execute("SET LOCAL lock_timeout = '20s'")
        cursor.execute(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE")


def _digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _sorted(partner: Partner) -> list[Agreement]:
    return sorted(partner.agreements.all(), key=lambda agreement: agreement.tpa_id)


def _agreement(agreement: Agreement) -> dict[str, object]:
    names = agreement.settings.names
    values = _values(agreement, [key for key in setup.AGREEMENT if key in names], names)
    if agreement.dialect == Dialect.EBMS2:
        values["channels"] = [_channel(each) for each in agreement.channels.all()]
    return values


def _channel(channel: Channel) -> dict[str, object]:
    """Without the terms that are the agreement's."""
    return _values(channel, [key for key in setup.CHANNEL if getattr(channel, key) is not None])


def _values(
    row: Model, keys: Iterable[str], fields: Mapping[str, str] = _SAME
) -> dict[str, object]:
    """Return the values of the fields that the document calls `keys`."""
    values = {key: getattr(row, fields.get(key, key)) for key in keys if key != "partner"}
    return {key: _as_json(value) for key, value in values.items()}


def _as_json(value: object) -> object:
    """A moment is a text in UTC, none an empty one."""
    if value is None:
        return ""
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value
