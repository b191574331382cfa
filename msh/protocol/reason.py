"""Why an attempt ended as it did, and why input was refused, as codes: decided where the fact is
known, stored, and never read back from words."""

import re
from enum import StrEnum


class Reason(StrEnum):
    """The kind of the partner's answer, or of the failure that left an attempt without one."""

    CREDENTIALS = "credentials"
    ADDRESS = "address"
    MOVED = "moved"
    MESSAGE = "message"
    WAIT = "wait"
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"
    GATEWAY = "gateway"
    NAME = "name"
    TLS = "tls"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    CUT = "cut"
    MAIL = "mail"
    NUMBERS = "numbers"
    SENDER = "sender"
    NOT_ACCEPTED = "not_accepted"
    NO_ACKNOWLEDGEMENT = "no_acknowledgement"
    OTHER = "other"
    NONE = ""
    """Nothing is known: there was no attempt, or it has not ended."""


class Refusal(StrEnum):
    """Why input was refused, by what has to be done about it: of a partner, before it was a
    message, or of an application, as the `code` of its problem document."""

    CREDENTIALS = "credentials"
    NETWORK = "network"
    AGREEMENT = "agreement"
    REQUEST = "request"
    INCOMPLETE = "incomplete"
    TOO_LARGE = "too_large"
    MEDIA_TYPE = "media_type"
    PACKAGE = "package"
    DOCUMENT = "document"
    BUSY = "busy"
    # Of applications only.
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    INVALID = "invalid"
    CONFLICT = "conflict"
    MESSAGE_ID_REUSED = "message_id_reused"
    CHANGED = "changed"
    CLOSED = "closed"
    ENDED = "ended"
    REMOVED = "removed"
    FEED_RESTORED = "feed_restored"
    BEHIND_REFUSED = "behind_refused"
    INTERNAL = "internal"


_BY_STATUS = {
    **dict.fromkeys((401, 403, 407), Reason.CREDENTIALS),
    **dict.fromkeys((404, 405, 410, 421), Reason.ADDRESS),
    **dict.fromkeys((400, 413, 415, 422), Reason.MESSAGE),
    **dict.fromkeys((502, 504), Reason.GATEWAY),
    **dict.fromkeys((408, 425), Reason.SERVER_ERROR),
    **dict.fromkeys((429, 503), Reason.UNAVAILABLE),
}


def of_status(status: int, *, asked_to_wait: bool = False) -> Reason:
    """Return the reason that an HTTP status alone gives. `asked_to_wait`: as in
    `msh.protocol.attempt`."""
    if asked_to_wait:
        return Reason.WAIT
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 200 <= status < 300:
        return Reason.NO_ACKNOWLEDGEMENT
    if 300 <= status < 400:
        return Reason.ADDRESS
    return Reason.SERVER_ERROR if status >= 500 else Reason.OTHER


_REFUSALS = {
    401: Refusal.CREDENTIALS,
    403: Refusal.PERMISSION,
    404: Refusal.NOT_FOUND,
    408: Refusal.INCOMPLETE,
    409: Refusal.CONFLICT,
    410: Refusal.REMOVED,
    412: Refusal.CHANGED,
    **dict.fromkeys((413, 431), Refusal.TOO_LARGE),
    415: Refusal.MEDIA_TYPE,
    422: Refusal.INVALID,
    **dict.fromkeys((429, 503), Refusal.BUSY),
    500: Refusal.INTERNAL,
}


def refusal_of(status: int) -> Refusal:
    """Return the code of a refusal by us of which nothing is known but its HTTP status."""
    return _REFUSALS.get(status, Refusal.REQUEST)


_NUMBERS = re.compile(
    r"missing: expected [0-9]+$|was accepted before for another MessageId$|is not above the last"
)
"""The texts of a Receiver for a number that is not the next one (`msh.protocol.receiver`)."""
_SENDER = re.compile(
    r"SecurityFailure|\bsender\b.*\b(?:not (?:permitted|registered|authori[sz]ed|known|allowed)"
    r"|unknown|unauthori[sz]ed)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Texts of a partner that does not know us, or does not let us send."""
NAMED = frozenset({Reason.NUMBERS, Reason.SENDER})
"""The reasons that an Error of the partner may give, even after the message was suspended."""

# The draft has no codes for these two. Words of a partner are read for what they mean only here,
# and only when they arrive.


def of_refusal(said: str) -> Reason:
    """The reason of a message that was carried and not accepted (D49): 204 with X-MSH-Error, of
    which `said` is the value."""
    return Reason.NUMBERS if _NUMBERS.search(said) else of_words(said) or Reason.NOT_ACCEPTED


def of_words(said: str) -> Reason:
    """The reason that the words of an answer or an Error name, the code of which may be among them.
    NONE: they say nothing more than the status or code."""
    return Reason.SENDER if _SENDER.search(said) else Reason.NONE


def deciding(named: Reason, answered: Reason) -> Reason:
    """Return the reason that a message is not sent any further. `named`: with its suspension;
    `answered`: by the last attempt."""
    says_nothing = answered in (Reason.NONE, Reason.OTHER)
    return named if named in NAMED or says_nothing else answered
