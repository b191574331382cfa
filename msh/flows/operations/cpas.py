"""A CPA 2.0 becomes a partner with an agreement and its channels, and is kept (EB-195 to EB-199).

What it changes is decided and applied as a setup document: all of it, or nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from msh.decryption_keys import our_decryption_keys
from msh.models import OutboundMessage
from msh.pem import KeyUnusable, SigningKey, certificates_of, valid_at
from msh.protocol.ebms.cpa import Cpa, NotOne, who_is_us, why_not_in_force
from msh.protocol.ebms.message import PartyId
from msh.protocol.errors import Unreadable
from msh.protocol.uri import normalised
from msh.signing_keys import our_keys
from msh.store.clock import read_clock
from msh.store.history import Actor
from msh.wire.cpa import parties, read
from msh.wire.cpa_writer import compose
from partners import export, setup
from partners.cpa import Drafted, Known, NoActions, Ours, cpa_of, drafted, name_of
from partners.models import Agreement, CpaDocument, Partner
from partners.models.dialects import Dialect

from . import configure

SECTION = "cpas"


class CpaRefused(ValueError):
    """Nothing was changed. `problems`: why, a sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the CPA does not say. `we`: a PartyId of ours. `partner`: the name of the partner, which
    is found or chosen without. `certificate`: the partner's, in PEM, where the CPA has only its
    name. `not_yet`: it may be proposed still, or begin later."""

    we: str = ""
    partner: str = ""
    certificate: str = ""
    not_yet: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a CPA would change. `under_way`: how many messages are sent under its agreement now, to
    which the change applies from their next copy on. `is_kept`: these octets were the last that
    were imported for it."""

    cpa: Cpa
    content: bytes
    partner: str
    document: Mapping[str, Any]
    notes: tuple[str, ...]
    preview: export.Preview
    under_way: int
    is_kept: bool

    @property
    def changes(self) -> list[setup.Change]:
        return [one for one in self.preview.report.changes if one.what != "unchanged"]


def plan(content: bytes, wanted: Wanted, now: datetime | None = None) -> Plan:
    """Changes nothing. Raises CpaRefused."""
    now = now or read_clock()
    try:
        us = who_is_us(parties(content), _our_party_ids(), wanted.we)
        cpa = read(content, us)
    except (Unreadable, NotOne) as problem:
        raise CpaRefused(str(problem)) from None
    if why := why_not_in_force(cpa, now, not_yet=wanted.not_yet):
        raise CpaRefused(why)
    partner = _partner_of(cpa, wanted.partner)
    agreement = Agreement.objects.filter(partner__name=partner.name, tpa_id=cpa.cpa_id).first()
    pinned = _lasting(agreement, now)
    found = drafted(cpa, partner, wanted.we, wanted.certificate, pinned)
    try:
        preview = export.preview(found.document)
    except setup.SetupRefused as refused:
        raise CpaRefused(*_in_words(refused, found)) from None
    return Plan(
        cpa,
        content,
        partner.name,
        found.document,
        (*found.notes, *_notes_of_keys(cpa), *_notes_of(partner.name)),
        preview,
        _under_way(agreement),
        _last(agreement) == _digest(content),
    )


def carry_out(planned: Plan, actor: Actor, seen: str = "") -> setup.Report:
    """Do what was planned, and keep the CPA. Raises configure.ChangedMeanwhile if the configuration
    is not what it was then."""
    named = {"partner": planned.partner, "tpa_id": planned.cpa.cpa_id}

    def keep(applied: setup.Setup, path: str, row: object) -> None:
        agreement = applied.stored.agreements[planned.partner][planned.cpa.cpa_id]
        thing, digest = f"CPA {planned.cpa.cpa_id}", _digest(planned.content)
        if _last(agreement) == digest:
            applied.changes.append(setup.Change(thing, "unchanged"))
            return
        values = {
            "agreement": agreement,
            "tpa_id": planned.cpa.cpa_id,
            "version": planned.cpa.version,
            "status": planned.cpa.status,
            "begins": planned.cpa.start,
            "ends": planned.cpa.end,
            "sha256": digest,
            "content": planned.content,
            "imported_by": actor.name,
        }
        CpaDocument.objects.create(**values)
        applied.changes.append(setup.Change(thing, "added"))

    document = {**planned.document, SECTION: [named]}
    sections = {SECTION: configure.Section(keep, CpaDocument)}
    return configure.apply(document, actor, seen or planned.preview.seen, sections)


def stored(agreement: Agreement) -> CpaDocument | None:
    """The CPA that it was made from."""
    return CpaDocument.objects.filter(agreement=agreement).first()


def made_of(agreement: Agreement, now: datetime | None = None) -> bytes:
    """A CPA for the gateway of the partner, from an agreement that was made by hand (EB-200).
    Raises CpaRefused."""
    now = now or read_clock()
    uri = agreement.partner.our_uri_or_default
    if not uri:
        raise CpaRefused("We have no address that a partner could send to: set MSH_URI.")
    try:
        keys = our_keys()
        opens = [one.private.public_key() for one in our_decryption_keys()]
        encryption = [one for one in keys if one.certificate.public_key() in opens]
        signing = {
            kind: _pem(valid_at([one for one in keys if one.kind == kind], now))
            for kind in {one.kind for one in keys}
        }
        ours = Ours(uri, signing, _pem(valid_at(encryption, now)))
        return compose(cpa_of(agreement, ours, now))
    except (NoActions, KeyUnusable) as problem:
        raise CpaRefused(str(problem)) from None


def _pem(key: SigningKey | None) -> str:
    """Its certificate; empty without one: a CPA then has only the name of a key."""
    if key is None:
        return ""
    return key.certificate.public_bytes(Encoding.PEM).decode().strip()


def _our_party_ids() -> set[PartyId]:
    ours = Agreement.objects.filter(dialect=Dialect.EBMS2)
    return {PartyId(*one) for one in ours.values_list("our_party", "our_party_context").distinct()}


def _partner_of(cpa: Cpa, name: str) -> Known:
    """The partner with the PartyId of the other party, or that is to be called so."""
    values = [one.value for one in cpa.theirs.party_ids]
    of_party = Partner.objects.filter(
        agreements__dialect=Dialect.EBMS2, agreements__their_party__in=values
    ).distinct()
    if name:
        found = list(Partner.objects.filter(name=name))
    else:
        same = of_party.filter(agreements__tpa_id=cpa.cpa_id)
        found = list(same or of_party)
    if len(found) > 1:
        names = ", ".join(one.name for one in found)
        raise CpaRefused(f"Several partners have PartyId {values[0]}: {names}. Name one of them.")
    if found:
        (partner,) = found
        return Known(partner.name, partner.destination, partner.error_address)
    name = name or name_of(cpa.theirs)
    taken = Partner.objects.filter(name=name).first()
    if taken is None:
        return Known(name, uri=_free_uri(cpa.signals_out.address, name))
    if taken.agreements.exists():
        raise CpaRefused(
            f"Partner {name} has agreements with other parties: name the partner of the CPA."
        )
    return Known(taken.name, taken.destination, taken.error_address)


def _free_uri(address: str, name: str) -> str:
    """Who a new partner is: its address, unless another one, at the same hub, is called so."""
    taken = Partner.objects.filter(uri_normalised=normalised(address)).exists()
    return f"https://{name}.invalid/" if taken else address


def _in_words(refused: setup.SetupRefused, found: Drafted) -> list[str]:
    """What the agreement cannot be, without the place in a document that nobody wrote."""
    start = "partners[0].agreements[0]."
    return [one.replace(start, "").replace("partners[0].", "partner.") for one in refused.problems]


def _notes_of_keys(cpa: Cpa) -> list[str]:
    """Whether we have the key of the certificate that it names for us."""
    ours = [one.channel.signing for one in cpa.actions if one.is_ours and one.channel.signing]
    named = {one.certificate for one in ours if one.certificate}
    if not ours:
        return []
    try:
        have = {one.certificate for one in our_keys()}
    except KeyUnusable:
        have = set()
    if not have:
        return ["Our messages have to be signed: set MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE."]
    missing = [one for pem in named for one in certificates_of(pem) if one not in have]
    text = "We have no key for the certificate that it has of us"
    return [f"{text}: {_subject(one)}." for one in missing]


def _subject(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()


def _notes_of(name: str) -> list[str]:
    partner = Partner.objects.filter(name=name).first()
    if partner and (partner.allowed_networks or partner.credentials.exists()):
        return []
    text = "The partner is known by no credential and no network: give it one, or nothing of it is"
    return [f"{text} accepted."]


def _lasting(agreement: Agreement | None, now: datetime) -> tuple[x509.Certificate, ...]:
    """The certificates by which signatures of the partner are taken now: it may have signed by
    them what is under way."""
    if agreement is None:
        return ()
    return tuple(
        one
        for one in certificates_of(agreement.certificate)
        if agreement.keep_expired or now <= one.not_valid_after_utc
    )


def _under_way(agreement: Agreement | None) -> int:
    if agreement is None:
        return 0
    return OutboundMessage.objects.filter(agreement=agreement, completed_at=None).count()


def _last(agreement: Agreement | None) -> str:
    last = stored(agreement) if agreement is not None and agreement.pk else None
    return last.sha256 if last else ""


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
