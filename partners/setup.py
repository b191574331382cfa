"""`manage.py setup FILE.json`: partners, agreements and routes from a document. Adds and updates;
removes nothing but channels, whose list is the whole list of an agreement; the same document again
changes nothing. All of it is applied, or nothing."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model

from msh.protocol.uri import normalised
from partners.models import (
    SECRET_LENGTH,
    Agreement,
    Channel,
    Credential,
    CredentialKind,
    OwnIdentity,
    Partner,
    Route,
    digest_of,
    our_identity,
)
from partners.models.channel import TERMS
from partners.models.credential import certificates_in
from partners.models.dialects import Dialect, dialect_with, settings_of
from partners.models.fields import proxy_parts
from partners.models.partner import OutgoingKind
from partners.presets import PRESETS
from partners.secrecy import SecretUnreadableError

# What a document may say of each, and as what.
OWN = {"msh_uri": str, "error_uri": str}
_LIMITED = ("probe_interval", "rate_limit", "undelivered_limit", "undelivered_bytes_limit")
PARTNER = {
    **dict.fromkeys(("name", "our_uri", "uri", "address", "error_uri", "allowed_networks"), str),
    **dict.fromkeys(("ca_certificates", "client_certificate", "http_proxy"), str),
    **dict.fromkeys(("resume_on_late_ack", "never_probe"), bool),
    **dict.fromkeys(_LIMITED, int),
}
_CERTIFICATE_IN = "certificate_in"
_INCOMING = {"token_in": CredentialKind.BEARER, "basic_in": CredentialKind.BASIC}
_OUTGOING = {"token_out": OutgoingKind.BEARER, "basic_out": OutgoingKind.BASIC}
_ADDRESSES = ("uri", "address", "http_proxy")
_OUTGOING_FIELDS = ("outgoing_kind", "outgoing_secret")
SECRETS = dict.fromkeys((*_INCOMING, *_OUTGOING, _CERTIFICATE_IN), str)
_PARTY = ("our_party", "our_party_context", "our_party_type", "our_role")
_THEIRS = ("their_party", "their_party_context", "their_party_type", "their_role")
_TIMES = ("timeout", "retries", "retry_interval")
_CERTIFICATES = ("certificate", "encryption_certificate")
_TEXTS = (*_CERTIFICATES, "ca_certificates", "certificate_in")
_LIMITS = ("transient_count_limit", "transient_time_limit", "transient_wait_limit", "early_warning")
AGREEMENT = {
    **dict.fromkeys(("dialect", "tpa_id", *_PARTY, *_THEIRS, "service_type", "ends"), str),
    **dict.fromkeys((*_TIMES, *_LIMITS, "time_to_live", "persist_duration", "window"), int),
    "clock_tolerance": int,
    **dict.fromkeys(("semantics", "ack", "ack_actor", "eliminates"), str),
    **dict.fromkeys(("sync_reply", "soap_action"), str),
    **dict.fromkeys(("on_failure", "on_unexpected_first"), str),
    **dict.fromkeys(("ordered", "check_ref_to", "refuses_status"), bool),
    **dict.fromkeys(("signed", "ack_signed", "allow_sha1", "keep_expired"), bool),
    **dict.fromkeys(("encrypted", "allow_rsa_1_5"), bool),
    **dict.fromkeys((*_CERTIFICATES, "signature_method", "encryption_method"), str),
    **dict.fromkeys(("lenient", "retryable_codes"), list),
}
CHANNEL_KEY = ("direction", "service", "action")
CHANNEL = dict.fromkeys(CHANNEL_KEY, str) | {
    **{name: AGREEMENT[name] for name in TERMS},
    "address": str,
}
LISTS = ("partners", "routes")
ROUTE = {"to_party": str, "to_party_context": str, "partner": str, "mode": str}
FIELDS = {"error_uri": "error_address"}  # in the document → of Partner, where they differ
KEYS = {field: key for key, field in FIELDS.items()}
_KINDS = {
    str: "a string in quotes",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


_AT_ONCE: tuple[type[Model], ...] = (Partner, Agreement, Channel, Credential, Route)
NO_SECTIONS: Mapping[str, "Section"] = {}


class SetupRefused(ValueError):
    """Raised for errors in the document. Its text has one line for each: "PATH: what, and the
    cure". Nothing was changed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Change:
    """The result for one object: `what` is added, updated, removed or unchanged; `fields` were
    updated."""

    thing: str
    what: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = f" ({', '.join(self.fields)})" if self.fields else ""
        return f"{self.thing}: {self.what}{fields}"


@dataclass(frozen=True, slots=True)
class Report:
    changes: tuple[Change, ...]

    def as_json(self) -> dict[str, object]:
        return {"changes": [asdict(change) for change in self.changes]}

    def __str__(self) -> str:
        return "\n".join(str(change) for change in self.changes)


def apply(document: object, sections: Mapping[str, "Section"] = NO_SECTIONS) -> Report:
    """Apply a document (its form is in docs/running.md). Refuses it as a whole with SetupRefused.
    `sections`: lists that it may have besides, of what is not a partner's.

    What is added is first inserted all at once, and checked without the database. Only if that
    finds anything wrong, each row is checked by itself, for a problem that names it.
    """
    try:
        return _apply(document, sections, Setup())
    except (SetupRefused, IntegrityError):
        return _apply(document, sections, Setup(at_once=False))


def _apply(document: object, sections: Mapping[str, "Section"], setup: "Setup") -> Report:
    with transaction.atomic():
        setup.take_document(document, sections)
        setup.stored.insert_new()
        if setup.problems:
            raise SetupRefused(setup.problems)
    return Report(tuple(setup.changes))


class _Stored:
    """The stored objects of each kind, read with one query, and those to be inserted."""

    def __init__(self) -> None:
        self._new: dict[type[Model], list[Model]] = {}

    @cached_property
    def partners(self) -> dict[str, Partner]:
        return {one.name: one for one in Partner.objects.all()}

    @cached_property
    def by_uri(self) -> dict[str, list[Partner]]:
        found: dict[str, list[Partner]] = {}
        for partner in self.partners.values():
            found.setdefault(partner.uri_normalised, []).append(partner)
        return found

    @cached_property
    def agreements(self) -> dict[str, dict[str, Agreement]]:
        """The agreements by the name of their partner, then by their TPAId."""
        names = {one.pk: one for one in self.partners.values()}
        found: dict[str, dict[str, Agreement]] = {}
        for agreement in Agreement.objects.all():
            agreement.partner = names[agreement.partner_id]
            found.setdefault(agreement.partner.name, {})[agreement.tpa_id] = agreement
        return found

    @cached_property
    def channels(self) -> dict[int, dict[tuple[str | None, ...], Channel]]:
        """The channels by their agreement, then by direction, Service, Action and own type."""
        found: dict[int, dict[tuple[str | None, ...], Channel]] = {}
        for channel in Channel.objects.all():
            found.setdefault(channel.agreement_id, {})[_key_of(vars(channel))] = channel
        return found

    @cached_property
    def credentials(self) -> dict[str, Credential]:
        return {one.sha256: one for one in Credential.objects.select_related("partner")}

    @cached_property
    def routes(self) -> dict[tuple[str, str], Route]:
        return {(one.to_party, one.to_party_context): one for one in Route.objects.all()}

    @cached_property
    def our_uri(self) -> str:
        return our_identity().uri

    def insert(self, row: Model) -> None:
        """Later, with all others of its kind."""
        self._new.setdefault(type(row), []).append(row)

    def insert_new(self) -> None:
        for model in _AT_ONCE:
            model._default_manager.bulk_create(self._new.pop(model, []))  # noqa: SLF001  public


class Setup:
    """One application of a document; collects every problem before it gives up."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.changes: list[Change] = []
        self.problems: list[str] = []
        self.at_once = at_once
        self.stored = _Stored()

    def take_document(self, document: object, sections: Mapping[str, "Section"]) -> None:
        read = self.read("", document, OWN | dict.fromkeys((*LISTS, *sections), list))
        for number, partner in enumerate(read.get("partners", ())):
            self._take_partner(f"partners[{number}]", partner)
        self.stored.insert_new()
        for number, route in enumerate(read.get("routes", ())):
            self._take_route(f"routes[{number}]", route)
        self.stored.insert_new()
        for name, take in sections.items():
            for number, row in enumerate(read.get(name, ())):
                take(self, f"{name}[{number}]", row)
        if own := {key: read[key] for key in read if key in OWN}:
            identity = OwnIdentity.objects.first() or OwnIdentity()
            self.keep("", "this MSH", identity, own)

    def _take_partner(self, path: str, document: object) -> None:
        document = _with_one_text(document)
        read = self.read(path, document, {**PARTNER, **SECRETS, "agreements": list})
        name = self.required(path, read, "name")
        partner = self.stored.partners.get(name) or Partner()
        values = {FIELDS.get(key, key): read[key] for key in read if key in PARTNER}
        values |= self._proxy(path, partner, read) | self._outgoing(path, partner, read)
        if self.at_once:
            partner.default_uri = self.stored.our_uri
            others = self.stored.by_uri.get(normalised(read.get("uri", partner.uri)), [])
            partner.known = [one for one in others if one is not partner]
        if not name or not self.keep(path, f"partner {name}", partner, values):
            return
        self.stored.partners[name] = partner
        self.stored.by_uri.setdefault(partner.uri_normalised, []).append(partner)
        for key, kind in _INCOMING.items():
            if key in read:
                self._take_credential(f"{path}.{key}", partner, kind, read[key])
        for certificate in certificates_in(read.get(_CERTIFICATE_IN, "")):
            self._take_certificate(f"{path}.{_CERTIFICATE_IN}", partner, certificate)
        for number, agreement in enumerate(read.get("agreements", ())):
            self._take_agreement(f"{path}.agreements[{number}]", partner, agreement)

    def _take_agreement(self, path: str, partner: Partner, document: object) -> None:
        document = _with_one_text(document)
        read = self.read(path, document, {**AGREEMENT, "preset": str, "channels": list})
        read = {**self._preset(path, read.pop("preset", "")), **read}
        listed = read.pop("channels", None)
        tpa_id = self.required(path, read, "tpa_id")
        known = self.stored.agreements.setdefault(partner.name, {})
        agreement = known.get(tpa_id) or Agreement(partner=partner)
        if self.at_once:
            agreement.known = [one for one in known.values() if one is not agreement]
        names = settings_of(read.get("dialect", agreement.dialect)).names
        for key in [key for key in read if key not in names]:
            self.problem(f"{path}.{key}", f"is a setting of dialect {dialect_with(key)} only.")
            del read[key]
        for key in [key for key in read if AGREEMENT[key] is list]:
            if bad := [one for one in read[key] if not isinstance(one, str)]:
                self.problem(f"{path}.{key}", f"must be a list of strings, not of {bad[0]!r}.")
                del read[key]
        if "ends" in read:
            self._read_moment(path, read, "ends")
        values = {names[key]: value for key, value in read.items()}
        keys = {field: key for key, field in names.items()}
        channels = _Channels(self, path, agreement, listed)
        if self.keep(path, f"agreement {tpa_id} with {partner.name}", agreement, values, keys):
            known[tpa_id] = agreement
            channels.keep()

    def _preset(self, path: str, name: str) -> dict[str, Any]:
        """The settings that it gives, for those that the document does not name."""
        if name and name not in PRESETS:
            self.problem(f"{path}.preset", f"there is no {name!r}. {_suggestion(name, PRESETS)}")
        given = PRESETS.get(name)
        return {"dialect": Dialect.EBMS2.value, **given} if given else {}

    def _read_moment(self, path: str, read: dict[str, Any], key: str) -> None:
        """An empty text is None; a moment without an offset is in UTC."""
        try:
            moment = datetime.fromisoformat(read[key]) if read[key] else None
        except ValueError:
            self.problem(f"{path}.{key}", "must be a time such as 2027-12-31T23:59:59Z.")
            del read[key]
            return
        is_naive = moment is not None and moment.tzinfo is None
        read[key] = moment.replace(tzinfo=UTC) if moment and is_naive else moment

    def _take_route(self, path: str, document: object) -> None:
        read = self.read(path, document, ROUTE)
        party = self.required(path, read, "to_party")
        name = self.required(path, read, "partner")
        partner = self.stored.partners.get(name)
        if partner is None:
            self.problem(f"{path}.partner", f"there is no partner {name!r}.")
            return
        context = read.get("to_party_context", "")
        found = self.stored.routes.get((party, context)) or Route()
        values = {key: value for key, value in read.items() if key != "partner"}
        values["partner_id"] = partner.pk
        if self.keep(path, f"route to {party}", found, values):
            self.stored.routes[party, context] = found

    def _take_credential(
        self, path: str, partner: Partner, kind: CredentialKind, secret: str
    ) -> None:
        found = self.stored.credentials.get(digest_of(secret))
        if not secret or (kind is CredentialKind.BASIC and ":" not in secret):
            self.problem(path, "enter a token, or user:password for Basic.")
        elif found is None and _chosen(kind, secret) < SECRET_LENGTH:
            self.problem(path, f"a token or password has at least {SECRET_LENGTH} characters.")
        else:
            self._keep_credential(path, Credential(kind=kind, sha256=digest_of(secret)), partner)

    def _take_certificate(self, path: str, partner: Partner, certificate: str) -> None:
        new = Credential()
        try:
            new.certify(certificate)
        except ValidationError as problem:
            self.problem(path, problem.messages[0])
        else:
            self._keep_credential(path, new, partner)

    def _keep_credential(self, path: str, new: Credential, partner: Partner) -> None:
        found = self.stored.credentials.get(new.sha256)
        if found is None:
            new.partner, new.label = partner, "setup"
            self.stored.credentials[new.sha256] = new
            self._add(new)
            self.changes.append(Change(f"credential of {partner.name}", "added"))
        elif found.partner.name != partner.name:
            whose = f"partner {found.partner.name} has the same one"
            self.problem(path, f"{whose}: each partner needs its own.")

    def _proxy(self, path: str, partner: Partner, read: Mapping[str, Any]) -> dict[str, str]:
        if "http_proxy" not in read:
            return {}
        try:
            return partner.proxied_by(read["http_proxy"])
        except ValidationError as problem:
            self.problem(f"{path}.http_proxy", problem.messages[0])
            return {"http_proxy": partner.http_proxy}

    def _outgoing(self, path: str, partner: Partner, read: Mapping[str, Any]) -> dict[str, object]:
        """The fields of our credential, if it changes."""
        keys = [key for key in _OUTGOING if key in read]
        if len(keys) > 1:
            self.problem(path, f"give {' or '.join(keys)}, not both.")
        if len(keys) != 1:
            return {}
        wanted = Partner()
        try:
            wanted.show(_OUTGOING[keys[0]], read[keys[0]])
        except ValidationError as problem:
            self.problem(f"{path}.{keys[0]}", problem.messages[0])
            return {}
        if _shows_the_same(partner, wanted) and not _moves(partner, read):
            return {}
        return {name: getattr(wanted, name) for name in _OUTGOING_FIELDS}

    def keep(
        self,
        path: str,
        thing: str,
        row: Model,
        values: Mapping[str, object],
        keys: Mapping[str, str] = KEYS,
    ) -> bool:
        """Save the row with these values if they are new. False if they are refused. `keys`: what
        the document calls its fields, where it is something else."""
        added = row._state.adding  # noqa: SLF001, Django documents it
        changed = {name: value for name, value in values.items() if getattr(row, name) != value}
        for name, value in changed.items():
            setattr(row, name, value)
        try:
            if added or changed:
                self._check(row)
        except ValidationError as problem:
            self.note_refusals(path, problem, keys)
            return False
        if added:
            self._add(row)
        elif changed:
            row.save(update_fields=list(changed))
        what = "added" if added else "updated" if changed else "unchanged"
        names = tuple(dict.fromkeys(keys.get(field, field) for field in changed))
        self.changes.append(Change(thing, what, () if added else names))
        return True

    def named_partners(self, path: str, read: Mapping[str, Any]) -> list[Partner] | None:
        """The partners that the list `partners` names; None if the document does not say."""
        if "partners" not in read:
            return None
        names = [name for name in read["partners"] if isinstance(name, str)]
        found = {one.name: one for one in Partner.objects.filter(name__in=names)}
        for number, name in enumerate(read["partners"]):
            if not isinstance(name, str) or name not in found:
                self.problem(f"{path}.partners[{number}]", f"there is no partner {name!r}.")
        return list(found.values())

    def keep_partners(self, row: Any, partners: list[Partner] | None) -> None:
        """Set the `partners` of the row that was kept last, if the document says them."""
        if partners is None or set(partners) == set(row.partners.all()):
            return
        row.partners.set(partners)
        last = self.changes.pop()
        if last.what != "added":
            last = Change(last.thing, "updated", (*last.fields, "partners"))
        self.changes.append(last)

    def _check(self, row: Model) -> None:
        """The database refuses what its constraints refuse when all rows are inserted."""
        if self.at_once and isinstance(row, _AT_ONCE) and row._state.adding:  # noqa: SLF001
            row.full_clean(
                ["partner", "agreement"], validate_unique=False, validate_constraints=False
            )
        else:
            row.full_clean()

    def _add(self, row: Model) -> None:
        if self.at_once and isinstance(row, _AT_ONCE):
            if isinstance(row, Agreement):
                row.follow()
            self.stored.insert(row)
        else:
            row.save()

    def read(self, path: str, document: object, keys: Mapping[str, type]) -> dict[str, Any]:
        """The values of an object, each of the type that `keys` names."""
        if not isinstance(document, dict):
            self.problem(path, f"must be {_KINDS[dict]}.")
            return {}
        read = {}
        for key, value in document.items():
            place = f"{path}.{key}".removeprefix(".")
            if key not in keys:
                self.problem(place, f"is not known. {_suggestion(key, keys)}")
            elif type(value) is not keys[key]:
                self.problem(place, f"must be {_KINDS[keys[key]]}.")
            else:
                read[key] = value
        return read

    def required(self, path: str, read: Mapping[str, object], key: str) -> str:
        if not read.get(key):
            self.problem(f"{path}.{key}", "is missing.")
        return str(read.get(key, ""))

    def note_refusals(self, path: str, problem: ValidationError, names: Mapping[str, str]) -> None:
        for field, messages in problem.message_dict.items():
            key = "" if field == NON_FIELD_ERRORS else names.get(field, field)
            for message in messages:
                self.problem(f"{path}.{key}".strip("."), message)

    def problem(self, path: str, what: str) -> None:
        problem = f"{path or 'the document'}: {what}"
        if problem not in self.problems:
            self.problems.append(problem)


class _Channels:
    """The list of channels of an agreement, which is the whole list; None: they stay as they are.
    The agreement is checked with the channels that it is to have."""

    def __init__(
        self, setup: Setup, path: str, agreement: Agreement, listed: list[object] | None
    ) -> None:
        self._setup, self._agreement = setup, agreement
        self._stored = setup.stored.channels[agreement.pk] if agreement.has_channels else {}
        self._listed = listed
        self._rows: list[tuple[str, Channel, dict[str, Any]]] = []
        for number, document in enumerate(listed or ()):
            self._read(f"{path}.channels[{number}]", document)
        agreement.listed = [] if listed is not None else list(self._stored.values())

    def _read(self, path: str, document: object) -> None:
        read = self._setup.read(path, document, CHANNEL)
        if [name for name in CHANNEL_KEY if not self._setup.required(path, read, name)]:
            return
        values = dict.fromkeys((*TERMS, "address")) | read
        channel = self._stored.get(_key_of(values)) or Channel()
        self._rows.append((path, channel, values))

    def keep(self) -> None:
        """After the agreement, whose terms may be new, too."""
        if self._listed is None:
            return
        kept = {_key_of(values) for _, _, values in self._rows}
        for key in self._stored.keys() - kept:
            name = self._name(self._stored[key])
            self._stored[key].delete()
            self._setup.changes.append(Change(name, "removed"))
        seen = set()
        for path, channel, values in self._rows:
            channel.agreement = self._agreement
            wanted = Channel(agreement=self._agreement, **{key: values[key] for key in _NAMED})
            if wanted.key in seen:
                self._setup.problem(path, "is listed twice.")
                continue
            seen.add(wanted.key)
            if not self._setup.keep(path, self._name(wanted), channel, values):
                continue
            try:
                channel.refuse_impossible_terms()
            except ValidationError as problem:
                self._setup.note_refusals(path, problem, KEYS)

    def _name(self, channel: Channel) -> str:
        return f"channel {channel} of {self._agreement}"


_NAMED = (*CHANNEL_KEY, "service_type")


def _key_of(values: Mapping[str, Any]) -> tuple[str | None, ...]:
    return tuple(values[name] for name in _NAMED)


def _with_one_text(document: object) -> object:
    """A list of certificates is their texts one after another."""
    if not isinstance(document, dict):
        return document
    given = {key: _text_of(document[key]) for key in _TEXTS if key in document}
    return {**document, **given}


def _text_of(given: object) -> object:
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        given = "\n".join(one.strip() for one in given)
    return given.strip() if isinstance(given, str) else given


Section = Callable[[Setup, str, object], None]
"""Takes one row of a list of the document, which is at this path."""


def _moves(partner: Partner, read: Mapping[str, object]) -> bool:
    """Whether an address changes. Then the secret has to be given again, even the same one."""
    if "http_proxy" in read:
        read = {**read, "http_proxy": proxy_parts(str(read["http_proxy"])).address}
    return any(read.get(key, getattr(partner, key)) != getattr(partner, key) for key in _ADDRESSES)


def _shows_the_same(partner: Partner, wanted: Partner) -> bool:
    try:
        return partner.authorization() == wanted.authorization()
    except SecretUnreadableError:
        return False


def _suggestion(key: str, keys: Iterable[str]) -> str:
    close = difflib.get_close_matches(key, keys, n=1)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(keys)}."


def _chosen(kind: CredentialKind, secret: str) -> int:
    """How many characters of it are secret."""
    return len(secret.partition(":")[2] if kind is CredentialKind.BASIC else secret)
