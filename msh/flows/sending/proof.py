"""Signatures and encryption in the flows: ours of what is composed, those of partners of what
comes."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from cryptography import x509
from django.utils import timezone

from msh.decryption_keys import our_decryption_keys
from msh.pem import (
    DecryptionKey,
    KeyUnusable,
    Trusted,
    certificates_of,
    enciphering,
    valid_at,
)
from msh.protocol.ebms.agreement import Agreed
from msh.protocol.ebms.encryption import has_to_be_decrypted, terms_of, told_alike
from msh.protocol.ebms.message import AnswerTo, ReceivedMessage, errors_to_report
from msh.protocol.ebms.proof import (
    UNPROVEN,
    has_to_be_verified,
    refused,
    unproven,
    why_not_acknowledged,
)
from msh.protocol.ebms.signature import SignatureTerms, SignedReference
from msh.protocol.ebms.vocabulary import ErrorCode, Kind
from msh.protocol.errors import Unreadable
from msh.protocol.message import Payload
from msh.signing_keys import our_key
from msh.store.receiving.ebms2_answers import Attribution
from msh.store.receiving.refusals import note, refusal_event, refuse_answer
from msh.store.sending.sent import find_sent
from msh.wire import part_content
from msh.wire.dialect import dialect_named
from msh.wire.ebms2 import encryption, signature
from msh.wire.ebms2.signature import SignatureRefused
from msh.wire.values import cid

logger = logging.getLogger(__name__)

REFUSED = refusal_event(Kind.ACKNOWLEDGMENT)
"""The event of an Acknowledgment that does not count."""


class Signable(Protocol):
    """The row of a message that is composed."""

    @property
    def signed(self) -> bool: ...
    @property
    def signature_method(self) -> str: ...
    @property
    def boundary(self) -> str: ...
    @property
    def wires(self) -> Sequence[bytes] | None: ...
    @property
    def content_ids(self) -> Sequence[str] | None: ...


def signer_of(row: Signable) -> Callable[[bytes], bytes] | None:
    """What signs the envelope of the message with its parts; None if the agreement wants none
    (EB-178). Raises KeyUnusable."""
    if not row.signed:
        return None
    parts = {
        cid(content_id): part_content(bytes(wire), row.boundary)
        for content_id, wire in zip(row.content_ids or (), row.wires or (), strict=True)
    }
    method = row.signature_method
    return partial(signature.sign, parts=parts, key=our_key(method), algorithm=method)


class Sealable(Protocol):
    """The row of a message that is composed. `encryption_certificate`: PEM, of the partner."""

    @property
    def dialect(self) -> str: ...
    @property
    def boundary(self) -> str: ...
    @property
    def encrypted(self) -> bool: ...
    @property
    def encryption_method(self) -> str: ...
    @property
    def encryption_certificate(self) -> str: ...
    @property
    def wires(self) -> Sequence[bytes] | None: ...
    @property
    def content_ids(self) -> Sequence[str] | None: ...
    @property
    def content_types(self) -> Sequence[str] | None: ...
    @property
    def labels(self) -> Sequence[str] | None: ...


def sealed_parts(row: Sealable) -> list[bytes] | None:
    """The parts of the message as they are encrypted now, other ones each time; None if the
    agreement wants none (EB-185). Raises KeyUnusable."""
    if not (row.encrypted and row.wires):
        return None
    certificate = _certificate_for(row.encryption_certificate)
    described = zip(
        row.wires, row.content_ids or (), row.content_types or (), row.labels or (), strict=True
    )
    payloads = [
        Payload(
            encryption.encrypt(
                part_content(bytes(wire), row.boundary),
                content_type,
                certificate,
                row.encryption_method,
            ),
            encryption.CONTENT_TYPE,
            content_id,
            label,
        )
        for wire, content_id, content_type, label in described
    ]
    return dialect_named(row.dialect).compose_parts(payloads, row.boundary)


def _certificate_for(pem: str) -> x509.Certificate:
    fit = [Trusted(one) for one in enciphering(certificates_of(pem))]
    if (valid := valid_at(fit, timezone.now())) is None:
        raise KeyUnusable("no certificate of the partner that is valid now may encipher keys")
    return valid.certificate


def opened(agreed: Agreed, received: ReceivedMessage) -> ReceivedMessage:
    """The message with its payloads decrypted, if the agreement has them encrypted, and then its
    signature verified, whether they could be decrypted or not: nobody is to find out by the answer,
    nor by the time that it takes (EB-176, EB-187)."""
    if not has_to_be_decrypted(received, agreed):
        return _verified(agreed, received)
    plain = encryption.decrypted(received, _our_decryption_keys(), terms_of(agreed))
    return told_alike(_verified(agreed, plain))


class Opening:
    """A message, opened under the terms that are asked for, once as long as they stay the same: a
    verification takes longer than all else that is done with a message."""

    def __init__(self, received: ReceivedMessage) -> None:
        self._received = received
        self._last: tuple[Agreed, ReceivedMessage] | None = None

    def __call__(self, agreed: Agreed) -> ReceivedMessage:
        """As `opened`."""
        if self._last is None or self._last[0] != agreed:
            self._last = agreed, opened(agreed, self._received)
        return self._last[1]


def _our_decryption_keys() -> tuple[DecryptionKey, ...]:
    """None if they cannot be read: a check and the log say so, a partner is not told."""
    try:
        return our_decryption_keys()
    except KeyUnusable as problem:
        logger.error("no payload can be decrypted: %s", problem)
        return ()


def _verified(agreed: Agreed, received: ReceivedMessage) -> ReceivedMessage:
    """The message with its signature verified, or with the defect that it does not fit (EB-176).
    One without a signature, or without a certificate to verify it by, as it is."""
    if not has_to_be_verified(received, agreed):
        return received
    try:
        return signature.verified(received, _trusted(agreed), _terms(agreed), timezone.now())
    except (SignatureRefused, Unreadable) as problem:
        return refused(received, str(problem))


def _trusted(agreed: Agreed) -> list[Trusted]:
    return [
        Trusted(one, agreed.keep_expired)
        for pem in agreed.certificates
        for one in certificates_of(pem)
    ]


def _terms(agreed: Agreed) -> SignatureTerms:
    return SignatureTerms(agreed.allow_sha1)


def judged(found: Attribution, received: ReceivedMessage) -> Iterator[tuple[AnswerTo, str]]:
    """What a message says of ours, each with the reason why its Acknowledgment does not count,
    empty if it does (EB-179). Nothing on a message whose signature does not count."""
    if _is_unproven(found.agreed, received):
        return
    for one in received.message.answers:
        why = _why_not(found, received, one) if one.acknowledged else ""
        yield one, why


def counting(found: Attribution, received: ReceivedMessage) -> Iterator[AnswerTo]:
    """Those of `judged` that count. Of the others the operators are told, who would send the
    message again in vain."""
    for one, why in judged(found, received):
        if not why:
            yield one
            continue
        about = (found.partner.pk, one.message_id, REFUSED, why)
        code = ErrorCode.SECURITY_FAILURE.value
        if not refuse_answer(*about, code):
            note(*about, code=code)


def _is_unproven(agreed: Agreed, received: ReceivedMessage) -> bool:
    if received.message.header.kind.is_signal:
        return False
    failed = [one for one in received.defects if one.rule in UNPROVEN]
    return bool(errors_to_report((*failed, *unproven(received, agreed)), agreed.lenient))


def _why_not(found: Attribution, received: ReceivedMessage, answer: AnswerTo) -> str:
    blocks = received.message.acknowledging(answer.message_id)
    agreed = found.agreed
    ours: tuple[SignedReference, ...] = ()
    says_digests = bool(received.signed_by_partner) or any(one.digests for one in blocks)
    sent = None
    if says_digests or agreed.ack_differs:
        sent = find_sent(found.partner.pk, found.agreement_id, answer.message_id)
    if sent is not None:
        agreed = replace(agreed, ack_signed=sent.ack_signed)
        ours = signature.references_of(sent.envelope) if says_digests else ()
    why = why_not_acknowledged(blocks, received, agreed, ours)
    return f"the Acknowledgment {why}" if why else ""
