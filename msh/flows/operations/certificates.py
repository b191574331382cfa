"""The certificates of signatures, encryption and TLS, ours and those of partners, which of them end
soon, and which agreements do."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from django.db.models import Q
from django.utils import timezone

from msh.pem import KeyUnusable, certificates_of
from msh.protocol.kinds import IncidentKind
from msh.signing_keys import our_keys
from msh.store.incidents import has_open, note_ending
from msh.transport.tls import TlsUnusable, our_certificate
from partners.models import Agreement, Credential, Partner

US = "us"
CLIENT, AUTHORITY = "client certificate", "CA certificate"
EARLY, LATE = timedelta(days=30), timedelta(days=7)
"""How long before its end an operator is told of a certificate, and told again."""


@dataclass(frozen=True, slots=True)
class Listed:
    """`whose`: US, or the name of a partner. `used_by`: its agreements, of ours all that are
    signed; or what a certificate of TLS is. `sha256` in hexadecimal digits."""

    whose: str
    used_by: tuple[str, ...]
    subject: str
    issuer: str
    serial: str
    sha256: str
    valid_from: datetime
    until: datetime


def certificates() -> list[Listed]:
    """Ours, then those of partners by name. Raises KeyUnusable or TlsUnusable for ours."""
    agreements = list(_agreements())
    signed = tuple(one.tpa_id for one in agreements if one.signs)
    ours = [_listed(US, signed, one.certificate) for one in our_keys()]
    by_partner: dict[tuple[str, x509.Certificate], list[str]] = {}
    for agreement in agreements:
        pem = f"{agreement.certificate}\n{agreement.encryption_certificate}"
        for certificate in dict.fromkeys(certificates_of(pem)):
            key = (agreement.partner.name, certificate)
            by_partner.setdefault(key, []).append(agreement.tpa_id)
    theirs = [_listed(name, used, one) for (name, one), used in by_partner.items()]
    if (client := our_certificate()) is not None:
        ours.append(_listed(US, (CLIENT,), client))
    theirs += [
        _listed(partner.name, (what,), one)
        for partner in _partners_of_tls()
        for what, shown in _certificates_of_tls(partner)
        for one in shown
    ]
    return [*ours, *sorted(theirs, key=lambda one: one.whose)]


def _listed(whose: str, used_by: Iterable[str], certificate: x509.Certificate) -> Listed:
    return Listed(
        whose,
        tuple(used_by),
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        f"{certificate.serial_number:X}",
        certificate.fingerprint(hashes.SHA256()).hex(),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _agreements(*also: Q) -> Iterable[Agreement]:
    trusting = ~Q(certificate="") | Q(signed=True) | Q(ack_signed=True)
    trusting |= ~Q(encryption_certificate="")
    found = Agreement.objects.filter(reduce(or_, also, trusting)).select_related("partner")
    return found.prefetch_related("channels").order_by("partner__name", "tpa_id")


def _partners_of_tls() -> Iterable[Partner]:
    certified = Credential.objects.exclude(pem="").values("partner")
    trusting = ~Q(ca_certificates="") | Q(pk__in=certified)
    found = Partner.objects.filter(trusting).order_by("name")
    return found.prefetch_related("credentials")


def _certificates_of_tls(
    partner: Partner,
) -> Iterator[tuple[str, tuple[x509.Certificate, ...]]]:
    """What they are, and those of which the last that ends counts."""
    yield AUTHORITY, certificates_of(partner.ca_certificates)
    pems = [one.pem for one in partner.credentials.all() if one.pem]
    yield CLIENT, certificates_of("\n".join(pems))


_KINDS = (
    IncidentKind.CERTIFICATE_ENDS,
    IncidentKind.CERTIFICATE_ENDS_SOON,
    IncidentKind.AGREEMENT_ENDS,
    IncidentKind.AGREEMENT_ENDED,
)


def call_for_ending() -> None:
    """Open an incident EARLY and another one LATE before the last certificate of an agreement ends,
    the last client certificate or CA certificate of a partner, or ours: this one concerns all, and
    belongs to the first partner with a signed agreement, or to the first one. And EARLY before an
    agreement ends, and when it has ended (EB-197)."""
    now = timezone.now()
    agreements = list(_agreements(Q(ends__lte=now + EARLY)))
    of_tls = list(_ends_of_tls())
    if not agreements and not of_tls and not has_open(_KINDS):  # as in most MSHs
        return
    reasons: dict[IncidentKind, dict[int, str]] = {kind: {} for kind in _KINDS}
    for partner_id, kind, text in (
        *_ending_certificates([*_ends_of_agreements(agreements), *of_tls], now),
        *_ending(agreements, now),
    ):
        reasons[kind].setdefault(partner_id, text)
    for kind, found in reasons.items():
        note_ending(kind, found)


_Ending = Iterator[tuple[int, IncidentKind, str]]
"""What ends soon: of which partner, and in words."""
_End = tuple[int, str, datetime | None]
"""Of which partner, what, and when; None if there is none."""


def _ends_of_agreements(agreements: Iterable[Agreement]) -> Iterator[_End]:
    signed = [one for one in agreements if one.signs]
    for one in signed[:1]:
        yield one.partner_id, "of MSH_SIGNING_CERTIFICATE", _end_of_ours()
    for one in agreements:
        if not one.keep_expired:
            yield one.partner_id, f"of agreement {one}", _end_of(one)
    for one in agreements:
        if one.encrypts or one.encryption_certificate:
            yield one.partner_id, f"for encryption of agreement {one}", _end_of_encryption(one)


def _ends_of_tls() -> Iterator[_End]:
    try:
        client = our_certificate()
    except TlsUnusable:  # a check says so
        client = None
    if client is not None and (first := Partner.objects.order_by("name").first()) is not None:
        yield first.pk, "of MSH_CLIENT_CERTIFICATE", client.not_valid_after_utc
    for partner in _partners_of_tls():
        for what, shown in _certificates_of_tls(partner):
            ends = [one.not_valid_after_utc for one in shown]
            yield partner.pk, f"of partner {partner.name}, its {what},", max(ends, default=None)


def _ending_certificates(ends: Iterable[_End], now: datetime) -> _Ending:
    for partner_id, of, end in ends:
        if end is None or end - now > EARLY:
            continue
        soon = end - now <= LATE
        kind = IncidentKind.CERTIFICATE_ENDS_SOON if soon else IncidentKind.CERTIFICATE_ENDS
        yield partner_id, kind, f"the certificate {of} ends on {end:%Y-%m-%d}"


def _ending(agreements: Iterable[Agreement], now: datetime) -> _Ending:
    for agreement in agreements:
        if agreement.ends is None or agreement.ends - now > EARLY:
            continue
        ended = agreement.has_ended(now)
        kind = IncidentKind.AGREEMENT_ENDED if ended else IncidentKind.AGREEMENT_ENDS
        verb = "has ended" if ended else "ends"
        yield (
            agreement.partner_id,
            kind,
            f"agreement {agreement} {verb} on {agreement.ends:%Y-%m-%d}",
        )


def _end_of_encryption(agreement: Agreement) -> datetime | None:
    """Also of one whose signatures count after the end of its certificate: nothing is encrypted for
    that."""
    ends = [one.not_valid_after_utc for one in agreement.certificates_to_encrypt_for]
    return max(ends, default=None)


def _end_of(agreement: Agreement) -> datetime | None:
    ends = [one.not_valid_after_utc for one in certificates_of(agreement.certificate)]
    return max(ends, default=None)


def _end_of_ours() -> datetime | None:
    """None also if ours cannot be read: a check says so."""
    try:
        return max((one.certificate.not_valid_after_utc for one in our_keys()), default=None)
    except KeyUnusable:
        return None
