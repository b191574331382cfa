"""The certificates of signatures, encryption and TLS, ours and those of partners, which of them end
soon, and which agreements do."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import islice
from operator import or_

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from django.db.models import Q
from django.utils import timezone

from msh.pem import KeyUnusable, certificates_of, kind_of
from msh.protocol.ebms.signature import ALGORITHMS
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
VIEW_PERMISSIONS = ("partners.view_partner", "partners.view_agreement")
EARLY, LATE = timedelta(days=30), timedelta(days=7)
"""How long before its end an operator is told of a certificate, and told again."""


@dataclass(frozen=True, slots=True)
class Listed:
    """`partner`: whose it is; None: ours. `uses`: of USES. `agreements`: those that use it; none of
    one of TLS. `shown_to`: who is shown this client certificate of ours, empty for all others."""

    partner: Partner | None
    uses: tuple[str, ...]
    agreements: tuple[Agreement, ...]
    certificate: x509.Certificate
    shown_to: tuple[Partner, ...] = ()

    @property
    def whose(self) -> str:
        return self.partner.name if self.partner else US

    @property
    def used_by(self) -> tuple[str, ...]:
        """Of one of TLS what it is, or the partners that are shown it."""
        if self.shown_to:
            return tuple(one.name for one in self.shown_to)
        if self.uses[0] in (CLIENT, AUTHORITY):
            return self.uses
        return tuple(one.tpa_id for one in self.agreements)

    @property
    def subject(self) -> str:
        return self.certificate.subject.rfc4514_string()

    @property
    def issuer(self) -> str:
        return self.certificate.issuer.rfc4514_string()

    @property
    def serial(self) -> str:
        """In hexadecimal digits, as `sha256`."""
        return f"{self.certificate.serial_number:X}"

    @property
    def sha256(self) -> str:
        return _sha256(self.certificate)

    @property
    def valid_from(self) -> datetime:
        return self.certificate.not_valid_before_utc

    @property
    def until(self) -> datetime:
        return self.certificate.not_valid_after_utc


def certificates() -> tuple[list[Listed], list[str]]:
    """Ours, then those of partners by name; and why some of ours cannot be read."""
    problems: list[str] = []
    agreements = list(_agreements())
    ours = [
        *(
            Listed(None, (SIGNATURES,), tuple(_signing_by(kind_of(one), agreements)), one)
            for one in _readable(_signing, problems)
        ),
        *(
            Listed(None, (CLIENT,), (), one, partners)
            for name, partners in _clients().items()
            for one in _readable(partial(_client, name), problems)
        ),
    ]
    theirs = [*_of_agreements(agreements)]
    theirs += [
        Listed(partner, (what,), (), one)
        for partner in _partners_of_tls()
        for what, shown in _certificates_of_tls(partner)
        for one in shown
    ]
    return [*ours, *sorted(theirs, key=lambda one: one.whose)], problems


def _of_agreements(agreements: Iterable[Agreement]) -> Iterator[Listed]:
    """Each certificate once for each partner."""
    users: dict[tuple[int, x509.Certificate], dict[Agreement, None]] = {}
    uses: dict[tuple[int, x509.Certificate], dict[str, None]] = {}
    for agreement in agreements:
        for use, certificate in _uses(agreement):
            key = (agreement.partner_id, certificate)
            users.setdefault(key, {})[agreement] = None
            uses.setdefault(key, {})[use] = None
    for key, using in users.items():
        first, *_ = using
        yield Listed(first.partner, tuple(uses[key]), tuple(using), key[1])


def _uses(agreement: Agreement) -> Iterator[tuple[str, x509.Certificate]]:
    for one in certificates_of(agreement.certificate):
        yield SIGNATURES, one
    if agreement.encryption_certificate:
        for one in certificates_of(agreement.encryption_certificate):
            yield ENCRYPTION, one
    elif agreement.encrypts:
        for one in agreement.certificates_to_encrypt_for:
            yield ENCRYPTION, one


def _signing() -> list[x509.Certificate]:
    return [one.certificate for one in our_keys()]


def _signing_by(kind: str, agreements: Iterable[Agreement]) -> Iterator[Agreement]:
    """Those under which we sign by keys of this kind."""
    for one in agreements:
        if kind in {ALGORITHMS[method].key for method in one.signature_methods}:
            yield one


def _clients() -> dict[str, tuple[Partner, ...]]:
    """The partners that are shown a certificate of ours, by its name: nobody in particular that
    without one."""
    found: dict[str, tuple[Partner, ...]] = {"": ()}
    for partner in Partner.objects.exclude(client_certificate="").order_by("name"):
        name = partner.client_certificate
        found[name] = (*found.get(name, ()), partner)
    return found


def _client(name: str) -> list[x509.Certificate]:
    return [] if (one := our_certificate(name)) is None else [one]


def _readable(
    read: Callable[[], list[x509.Certificate]], problems: list[str] | None = None
) -> list[x509.Certificate]:
    """Nothing if ours cannot be read: `problems` are told, and a check says so."""
    try:
        return read()
    except (KeyUnusable, TlsUnusable) as problem:
        if problems is not None:
            problems.append(str(problem))
        return []


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
    by_kind: dict[str, list[x509.Certificate]] = {}
    for certificate in _readable(_signing):
        by_kind.setdefault(kind_of(certificate), []).append(certificate)
    for kind, ours in by_kind.items():
        for one in islice(_signing_by(kind, agreements), 1):
            of = "of MSH_SIGNING_CERTIFICATE"
            yield from _last(one.partner_id, SIGNATURES, US, of, ours)
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
    for name, partners in _clients().items():
        of = f"{name} of MSH_CLIENT_CERTIFICATES" if name else "of MSH_CLIENT_CERTIFICATE"
        for client in _readable(partial(_client, name)):
            for first in (partners or Partner.objects.order_by("name"))[:1]:
                yield Last(first.pk, CLIENT, US, of, client)
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
