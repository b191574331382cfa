"""What the last answer of a partner says about the cause, as a class, and what to do about it.
Pure: of the HTTP status and the text of an attempt (`msh/transport/`)."""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from msh.protocol.attempt import AttemptOutcome

from .ways import Standing, filled, words_of


class Answer(StrEnum):
    """The class of an answer, or of how an attempt ended without one."""

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
    NOT_ACCEPTED = "not_accepted"
    NO_ACKNOWLEDGEMENT = "no_acknowledgement"
    OTHER = "other"
    NONE = "none"


OUTCOMES = {
    AttemptOutcome.TRANSMITTED: "transmitted",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.DOUBTED: "unexpected response",
    AttemptOutcome.REFUSED: "refused",
}
"""The outcome of an attempt in words."""

MOVED_TO = " (Location: "
"""In the text of a redirect with this header."""
ASKED_TO_WAIT = "(Retry-After: "
"""In the text of an answer with this header."""
_STATUS = re.compile(r"(?:^|the last: )(\d{3})\b")
_REASON = re.compile(r"\b204 [^:]*: ")
"""The reason of a refusal (D49): 204 has no body, so that it can only be of X-MSH-Error."""
_NUMBERS = re.compile(
    r"missing: expected [0-9]+$|was accepted before for another MessageId$|is not above the last"
)
"""What a Receiver says of a number that is not the next one (`msh/protocol/receiver.py`)."""
_SEQUENCE_ERROR = re.compile(r"^Sequence(?:Gap|Stale|Conflict): ")
"""An Error Message that came after the link was suspended (`ExplainSuspension`)."""
_MAIL = re.compile(r"(?:^|the last: )(?:connect|EHLO|STARTTLS|AUTH|MAIL|RCPT|DATA)\b[\w ]*:")
_BY_STATUS = {
    **dict.fromkeys((401, 403, 407), Answer.CREDENTIALS),
    **dict.fromkeys((404, 405, 410, 421), Answer.ADDRESS),
    **dict.fromkeys((400, 413, 415, 422), Answer.MESSAGE),
    **dict.fromkeys((502, 504), Answer.GATEWAY),
    **dict.fromkeys((408, 425), Answer.SERVER_ERROR),
    **dict.fromkeys((429, 503), Answer.UNAVAILABLE),
}
_BY_TEXT = (
    (re.compile("Host name not found"), Answer.NAME),
    (re.compile("Certificate not trusted|TLS failed"), Answer.TLS),
    (re.compile("(?:^|the last: )no (?:connection|answer) within|timed out"), Answer.TIMEOUT),
    (re.compile("Cannot connect to"), Answer.CONNECTION),
    (re.compile("Connection (?:broken|closed)"), Answer.CUT),
)
"""The first that is found in the text of an attempt that was not answered."""


def answer_of(detail: str, status: int | None = None) -> Answer:
    """`status` is read from the text if it is None: a link that is suspended keeps only that."""
    if not detail and status is None:
        return Answer.NONE
    if says_out_of_step(detail):
        return Answer.NUMBERS
    if _MAIL.search(detail):
        return Answer.MAIL
    if status is None and (found := _STATUS.search(detail)):
        status = int(found[1])
    if status is not None:
        return _of_status(status, detail)
    return next((answer for words, answer in _BY_TEXT if words.search(detail)), Answer.OTHER)


def says_out_of_step(suspended_detail: str) -> bool:
    """Whether a link was suspended for silence, and the partner has named the reason since."""
    return _SEQUENCE_ERROR.match(suspended_detail) is not None


def _of_status(status: int, detail: str) -> Answer:
    if status in (429, 503) and ASKED_TO_WAIT in detail:
        return Answer.WAIT
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == 204 and _REASON.search(detail):
        return Answer.NUMBERS if _NUMBERS.search(detail) else Answer.NOT_ACCEPTED
    if 200 <= status < 300:
        return Answer.NO_ACKNOWLEDGEMENT
    if 300 <= status < 400:
        return Answer.MOVED if MOVED_TO in detail else Answer.ADDRESS
    return Answer.SERVER_ERROR if status >= 500 else Answer.OTHER


class Help(StrEnum):
    """What helps, beside a telephone: actions of a link (by their names), and pages to go to."""

    RESUME = "resume"
    RESYNCHRONISE = "resynchronise"
    PARTNER = "partner"
    CONNECTION = "connection"
    MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Cause:
    """`template` names actions as `ways.py` says. `runbook` names a page in msh/runbooks/. `helps`:
    first what helps first; *resume* is recommended only where it is the first."""

    what: str
    template: str
    runbook: str = ""
    helps: tuple[Help, ...] = (Help.RESUME,)
    standing: Standing = field(default=Standing.LINK, compare=False)

    def of(self, standing: Standing) -> "Cause":
        return self if standing is self.standing else replace(self, standing=standing)

    @property
    def text(self) -> str:
        """The advice with marks, to be part of a longer text."""
        return filled(self.template, self.standing)

    @property
    def advice(self) -> str:
        return words_of(self.text)


TEST_FIRST = (Help.CONNECTION, Help.RESUME)
_SETTINGS_FIRST = (Help.PARTNER, Help.CONNECTION, Help.RESUME)

ANSWERS: dict[Answer, Cause] = {
    Answer.CREDENTIALS: Cause(
        "The partner refuses our credentials",
        "Its MSH is running. Replace our credentials in the partner's settings, test the"
        " connection, then {again}. Nothing else helps.",
        "credentials",
        _SETTINGS_FIRST,
    ),
    Answer.ADDRESS: Cause(
        "No MSH answers at the partner's address",
        "A server answers, but not an MSH. Ask the partner's operator for the exact URL, correct"
        " the address in the partner's settings, test the connection, then {again}.",
        "address",
        _SETTINGS_FIRST,
    ),
    Answer.MOVED: Cause(
        "The partner's address redirects to another one",
        "The partner's MSH seems to have moved to the Location that the last answer names."
        " Redirects are not followed. Ask the partner's operator for the exact URL, correct the"
        " address in the partner's settings, test the connection, then {again}.",
        "address",
        _SETTINGS_FIRST,
    ),
    Answer.NAME: Cause(
        "The name of the partner's address does not resolve",
        "Check the address in the partner's settings. If other names do not resolve either, fix"
        " the DNS of this host. Test the connection, then {again}.",
        "name",
        _SETTINGS_FIRST,
    ),
    Answer.CONNECTION: Cause(
        "No connection to the partner",
        "Nothing accepts connections at its address: its MSH is down, or a firewall rejects us."
        " Test the connection. If it fails, call the partner's operator. {Again} when it works.",
        "connection",
        TEST_FIRST,
    ),
    Answer.TIMEOUT: Cause(
        "The partner did not answer in time",
        "Its MSH is down or too slow, or a firewall drops our packets. Test the connection. If"
        " it fails, call the partner's operator. {Again} when it works.",
        "timeout",
        TEST_FIRST,
    ),
    Answer.CUT: Cause(
        "The connection to the partner broke",
        "It was closed before the answer: by the MSH, or by a proxy or firewall in between. Test"
        " the connection. If it works, {again}; otherwise call the partner's operator.",
        "timeout",
        TEST_FIRST,
    ),
    Answer.TLS: Cause(
        "The TLS connection to the partner fails",
        "The last answer says why: a certificate has expired, is not trusted here, or is for"
        " another name. The partner must renew it, or this host must trust its CA. Test the"
        " connection, then {again}. Nothing else helps.",
        "tls",
        TEST_FIRST,
    ),
    Answer.WAIT: Cause(
        "The partner asks us to wait",
        "It is running, and its answer says for how long to wait. {Again} after that time. If it"
        " asks again, call the partner's operator.",
        "busy",
    ),
    Answer.SERVER_ERROR: Cause(
        "The partner's MSH fails",
        "It answers, but cannot process the message. Call the partner's operator and quote the"
        " answer. {Again} when the error is fixed.",
        "server-error",
    ),
    Answer.UNAVAILABLE: Cause(
        "The partner's MSH is not available",
        "It is in maintenance or overloaded; its answer may say why. Ask the partner's operator"
        " when it is available again, then {again}.",
        "server-error",
    ),
    Answer.GATEWAY: Cause(
        "A gateway answers, but the partner's MSH behind it does not",
        "The network path is open. Call the partner's operator: the MSH is down. {Again} when it"
        " is up.",
        "server-error",
    ),
    Answer.MESSAGE: Cause(
        "The partner refused the message permanently",
        "The partner will refuse the same content again. Read its answer. If the partner corrects"
        " its side, {again}. Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    Answer.NUMBERS: Cause(
        "Sequence numbers out of sync with the partner",
        "The partner refused the number of the message: probably one side was restored from a"
        " backup. Sending again does not help. {Resynchronise}: compare our next number with the"
        " last number and MessageId that the partner accepted.",
        "restored",
        (Help.RESYNCHRONISE,),
    ),
    Answer.NOT_ACCEPTED: Cause(
        "The partner did not accept the message",
        "The partner received the message and refused it; its answer says why. Ask the partner's"
        " operator to correct its side, then {again}. Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    Answer.NO_ACKNOWLEDGEMENT: Cause(
        "The partner accepted the message, but no Acknowledgement came",
        "The Acknowledgement does not reach us. Ask the partner's operator why: a wrong address"
        " of ours, wrong credentials here, or an error of the partner's MSH. Then {again}."
        " After {resuming}, the partner discards the duplicate and acknowledges it again.",
        "no-acknowledgement",
    ),
}
"""Classes that are not here say nothing about the cause."""
