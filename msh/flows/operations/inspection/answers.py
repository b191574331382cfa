"""What the last answer of a partner says about the cause, as a class, and what to do about it.
Its class was decided where it was known (`msh.protocol.reason`)."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from msh.protocol.attempt import AttemptOutcome
from msh.protocol.reason import Reason

from .ways import Standing, filled, words_of

OUTCOMES = {
    AttemptOutcome.TRANSMITTED: "transmitted",
    AttemptOutcome.FAILED: "failed",
    AttemptOutcome.DOUBTED: "unexpected response",
    AttemptOutcome.REFUSED: "refused",
}
"""The outcome of an attempt in words."""


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

ANSWERS: dict[Reason, Cause] = {
    Reason.CREDENTIALS: Cause(
        "The partner refuses our credentials",
        "Its MSH is running. Replace our credentials in the partner's settings, test the"
        " connection, then {again}. Nothing else helps.",
        "credentials",
        _SETTINGS_FIRST,
    ),
    Reason.ADDRESS: Cause(
        "No MSH answers at the partner's address",
        "A server answers, but not an MSH. Ask the partner's operator for the exact URL, correct"
        " the address in the partner's settings, test the connection, then {again}.",
        "address",
        _SETTINGS_FIRST,
    ),
    Reason.MOVED: Cause(
        "The partner's address redirects to another one",
        "The partner's MSH seems to have moved to the Location that the last answer names."
        " Redirects are not followed. Ask the partner's operator for the exact URL, correct the"
        " address in the partner's settings, test the connection, then {again}.",
        "address",
        _SETTINGS_FIRST,
    ),
    Reason.NAME: Cause(
        "The name of the partner's address does not resolve",
        "Check the address in the partner's settings. If other names do not resolve either, fix"
        " the DNS of this host. Test the connection, then {again}.",
        "name",
        _SETTINGS_FIRST,
    ),
    Reason.CONNECTION: Cause(
        "No connection to the partner",
        "Nothing accepts connections at its address: its MSH is down, or a firewall rejects us."
        " Test the connection. If it fails, call the partner's operator. {Again} when it works.",
        "connection",
        TEST_FIRST,
    ),
    Reason.TIMEOUT: Cause(
        "The partner did not answer in time",
        "Its MSH is down or too slow, or a firewall drops our packets. Test the connection. If"
        " it fails, call the partner's operator. {Again} when it works.",
        "timeout",
        TEST_FIRST,
    ),
    Reason.CUT: Cause(
        "The connection to the partner broke",
        "It was closed before the answer: by the MSH, or by a proxy or firewall in between. Test"
        " the connection. If it works, {again}; otherwise call the partner's operator.",
        "timeout",
        TEST_FIRST,
    ),
    Reason.TLS: Cause(
        "The TLS connection to the partner fails",
        "The last answer says why: a certificate has expired, is not trusted here, or is for"
        " another name. The partner must renew it, or this host must trust its CA. Test the"
        " connection, then {again}. Nothing else helps.",
        "tls",
        TEST_FIRST,
    ),
    Reason.WAIT: Cause(
        "The partner asks us to wait",
        "It is running, and its answer says for how long to wait. {Again} after that time. If it"
        " asks again, call the partner's operator.",
        "busy",
    ),
    Reason.SERVER_ERROR: Cause(
        "The partner's MSH fails",
        "It answers, but cannot process the message. Call the partner's operator and quote the"
        " answer. {Again} when the error is fixed.",
        "server-error",
    ),
    Reason.UNAVAILABLE: Cause(
        "The partner's MSH is not available",
        "It is in maintenance or overloaded; its answer may say why. Ask the partner's operator"
        " when it is available again, then {again}.",
        "server-error",
    ),
    Reason.GATEWAY: Cause(
        "A gateway answers, but the partner's MSH behind it does not",
        "The network path is open. Call the partner's operator: the MSH is down. {Again} when it"
        " is up.",
        "server-error",
    ),
    Reason.MESSAGE: Cause(
        "The partner refused the message permanently",
        "The partner will refuse the same content again. Read its answer. If the partner corrects"
        " its side, {again}. Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    Reason.NUMBERS: Cause(
        "Sequence numbers out of sync with the partner",
        "The partner refused the number of the message: probably one side was restored from a"
        " backup. Sending again does not help. {Resynchronise}: compare our next number with the"
        " last number and MessageId that the partner accepted.",
        "restored",
        (Help.RESYNCHRONISE,),
    ),
    Reason.NOT_ACCEPTED: Cause(
        "The partner did not accept the message",
        "The partner received the message and refused it; its answer says why. Ask the partner's"
        " operator to correct its side, then {again}. Otherwise {instead}.",
        "refused",
        (Help.MESSAGE, Help.RESUME),
    ),
    Reason.NO_ACKNOWLEDGEMENT: Cause(
        "The partner accepted the message, but no Acknowledgement came",
        "The Acknowledgement does not reach us. Ask the partner's operator why: a wrong address"
        " of ours, wrong credentials here, or an error of the partner's MSH. Then {again}."
        " After {resuming}, the partner discards the duplicate and acknowledges it again.",
        "no-acknowledgement",
    ),
}
"""Reasons that are not here say nothing about the cause."""
