"""The answers to ebMS messages: composed once, kept, and sent again as they are (EB-110)."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from msh.models import SignalKind
from msh.protocol.ebms import signals
from msh.protocol.ebms.agreement import Agreed, parties_of, signs_errors
from msh.protocol.ebms.message import Error, Message, ReceivedMessage, is_copy
from msh.protocol.ebms.vocabulary import Kind
from msh.protocol.receiver import Known
from msh.protocol.uri import host_of
from msh.signing_keys import our_key
from msh.store import history
from msh.store.engine import Call
from msh.store.history import HistoryRow
from msh.wire.ebms2 import signature
from msh.wire.ebms2.envelope import compose_alone
from partners.models import Partner

from . import ebms2_sql
from .conversations import HeldConversation
from .ebms2_sql import KeptSignal, KnownRow
from .pairs import SIGNAL_HORIZON


@dataclass(frozen=True, slots=True)
class Attribution:
    """The partner that sent a request, and its agreement. `unreached`: the partner does not answer
    to what we send."""

    partner: Partner
    agreement_id: int
    agreed: Agreed
    horizon: int
    unreached: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """The pair as it was read under its lock, with what it knows of a MessageId. `on_connection`:
    what is answered goes there, and is not pending. `conversation`: that of a message in order."""

    found: Attribution
    link_id: int
    row: KnownRow
    on_connection: bool = False
    conversation: HeldConversation | None = None

    @property
    def expires_at(self) -> datetime:
        return self.row.now + timedelta(seconds=max(self.found.horizon, SIGNAL_HORIZON))

    def known(self, received: ReceivedMessage) -> Known:
        digest = self.row.refused_digest if self.row.known_id is None else self.row.known_digest
        if digest is None:
            return Known.NO
        copy = is_copy(received, bytes(digest), self.found.agreed.lenient)
        return Known.SAME if copy else Known.OTHER


def event_call(pair: Pair, message_id: str, event: str, detail: str) -> Call[None]:
    about = (pair.found.partner.pk, "in", event, message_id)
    return history.insert_or_count(HistoryRow(*about, detail=detail, at=pair.row.now))


def first_ack(pair: Pair, received: ReceivedMessage) -> KeptSignal:
    """With the digests of what it acknowledges (EB-098), signed if the agreement says so (EB-099).
    Raises KeyUnusable."""
    message, agreed = received.message, pair.found.agreed
    about = _About(message.header.message_id, message.header.conversation_id)
    ack = signals.acknowledgment(
        signal_about(pair.found, Kind.ACKNOWLEDGMENT, pair.row.now, *about),
        message.ack_requested,
        pair.row.known_at or pair.row.now,
        received.signed_by_partner,
    )
    return _kept(pair, about, SignalKind.ACKNOWLEDGEMENT, ack, signed=agreed.ack_signed)


def ack_call(pair: Pair, received: ReceivedMessage) -> Call[object]:
    """The first answer, unless there is one."""
    return _keep(pair, first_ack(pair, received))


def repeat_call(pair: Pair, received: ReceivedMessage) -> Call[object]:
    if pair.row.known_id is not None:
        return ack_call(pair, received)
    repeat = ebms2_sql.ANSWER_AGAIN if pair.on_connection else ebms2_sql.REPEAT_KEPT
    return repeat(key=pair.row.refused_id, at=pair.row.now, expires_at=pair.expires_at)


def _keep(pair: Pair, kept: KeptSignal) -> Call[object]:
    keep = ebms2_sql.ANSWER_KEPT if pair.on_connection else ebms2_sql.QUEUE_KEPT
    return keep.of(kept)


def error_calls(
    pair: Pair,
    message_id: str,
    conversation_id: str,
    errors: tuple[Error, ...],
    code: str,
    content_digest: bytes | None = None,
) -> Iterator[Call[object]]:
    """`code` is that of the inner language. With the digest of the message a further copy gets the
    same answer."""
    about, first = _About(message_id, conversation_id), errors[0]
    signal = signal_about(pair.found, Kind.MESSAGE_ERROR, pair.row.now, *about)
    error = signals.message_error(signal, errors)
    kept = replace(
        _kept(pair, about, SignalKind.ERROR, error, signed=signs_errors(pair.found.agreed)),
        code=code,
        location=first.location,
        description=first.description,
        content_digest=content_digest,
    )
    yield _keep(pair, kept)
    yield event_call(pair, message_id, code, first.description)


class _About(NamedTuple):
    """The message that is answered."""

    message_id: str
    conversation_id: str


def signal_about(
    found: Attribution, kind: Kind, now: datetime, message_id: str, conversation_id: str
) -> signals.Signal:
    host = host_of(found.partner.our_uri_or_default) or "msh"
    return signals.Signal(
        *parties_of(found.agreed, kind),
        found.agreed.cpa_id,
        conversation_id,
        f"{uuid.uuid4()}@{host}",
        now,
        message_id,
    )


def _kept(
    pair: Pair, about: _About, kind: SignalKind, signal: Message, *, signed: bool
) -> KeptSignal:
    method = pair.found.agreed.signature_method
    sign = (
        partial(signature.sign, parts={}, key=our_key(method), algorithm=method) if signed else None
    )
    content_type, body = compose_alone(signal, sign)
    return KeptSignal(
        pair.link_id,
        kind.value,
        about.message_id,
        pair.found.agreed.cpa_id,
        about.conversation_id,
        pair.row.now,
        pair.expires_at,
        content_type,
        body,
    )
