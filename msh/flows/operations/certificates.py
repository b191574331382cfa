"""The certificates of signatures, encryption and TLS, ours and those of partners, which of them end
soon, and which agreements do."""

from collections.abc import Iterable, Iterator, Sequence
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
USES = SIGNATURES, ENCRYPTION, CLIENT, AUTHORITY = (
    *("signatures", "encryption"),
    *("client certificate", "CA certificate"),
)
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
        _sha256(certificate),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
    )


def _sha256(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


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
    of_tls = list(_last_of_tls())
    if not agreements and not of_tls and not has_open(_KINDS):  # as in most MSHs
        return
    reasons: dict[IncidentKind, dict[int, str]] = {kind: {} for kind in _KINDS}
    for partner_id, kind, text in (
        *_ending_certificates([*_last_of_agreements(agreements), *of_tls], now),
        *_ending(agreements, now),
    ):
        reasons[kind].setdefault(partner_id, text)
    for kind, found in reasons.items():
        note_ending(kind, found)


@dataclass(frozen=True, slots=True)
class Last:
    """The one that ends last, of certificates that can take the place of each other: when it ends,
    something ends. `of`: what, in words; `use`: one of USES; `whose`: US, or the name of a partner.
    An operator of `partner_id` is told."""

    partner_id: int
    use: str
    whose: str
    of: str
    certificate: x509.Certificate

    @property
    def until(self) -> datetime:
        return self.certificate.not_valid_after_utc

    @property
    def sha256(self) -> str:
        return _sha256(self.certificate)


def last_certificates() -> Iterator[Last]:
    """Those of agreements, then of TLS. Ours that cannot be read are left out: a check says so."""
    yield from _last_of_agreements(list(_agreements()))
    yield from _last_of_tls()


def _last_of_agreements(agreements: Sequence[Agreement]) -> Iterator[Last]:
    signed = [one for one in agreements if one.signs]
    for one in signed[:1]:
        of = "of MSH_SIGNING_CERTIFICATE"
        yield from _last(one.partner_id, SIGNATURES, US, of, _ours())
    for one in agreements:
        if not one.keep_expired:
            its = one.partner_id, SIGNATURES, one.partner.name, f"of agreement {one}"
            yield from _last(*its, certificates_of(one.certificate))
    for one in agreements:
        if one.encrypts or one.encryption_certificate:
            # Also where signatures count after the end: nothing is encrypted for such a one.
            its = one.partner_id, ENCRYPTION, one.partner.name, f"for encryption of agreement {one}"
            yield from _last(*its, one.certificates_to_encrypt_for)


def _last_of_tls() -> Iterator[Last]:
    try:
        client = our_certificate()
    except TlsUnusable:  # a check says so
        client = None
    if client is not None and (first := Partner.objects.order_by("name").first()) is not None:
        yield Last(first.pk, CLIENT, US, "of MSH_CLIENT_CERTIFICATE", client)
    for partner in _partners_of_tls():
        for what, shown in _certificates_of_tls(partner):
            of = f"of partner {partner.name}, its {what},"
            yield from _last(partner.pk, what, partner.name, of, shown)


def _last(
    partner_id: int, use: str, whose: str, of: str, shown: Sequence[x509.Certificate]
) -> Iterator[Last]:
    if shown:
        last = max(shown, key=lambda one: one.not_valid_after_utc)
        yield Last(partner_id, use, whose, of, last)


def _ours() -> Sequence[x509.Certificate]:
    try:
        return [one.certificate for one in our_keys()]
    except KeyUnusable:  # a check says so
        return ()


_Ending = Iterator[tuple[int, IncidentKind, str]]
"""What ends soon: of which partner, and in words."""


def _ending_certificates(found: Iterable[Last], now: datetime) -> _Ending:
    for one in found:
        if one.until - now > EARLY:
            continue
        soon = one.until - now <= LATE
        kind = IncidentKind.CERTIFICATE_ENDS_SOON if soon else IncidentKind.CERTIFICATE_ENDS
        yield one.partner_id, kind, f"the certificate {one.of} ends on {one.until:%Y-%m-%d}"


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
