"""What to do about a link that is retrying, by the Reason of the last answer: in most cases nothing
but to look for the cause before the retries are used up."""

from django.db.models import Q

from msh.protocol.attempt import AttemptOutcome
from msh.protocol.reason import Reason

from .answers import ANSWERS, Cause, Help

RETRYING: dict[Reason, str] = {
    Reason.CREDENTIALS: (
        "The partner refuses our credentials. Replace them in the partner's settings and test"
        " the connection: the next copy uses the new ones."
    ),
    Reason.ADDRESS: (
        "A server answers, but not an MSH. Correct the address in the partner's settings and"
        " test the connection: the next copy is sent there."
    ),
    Reason.MOVED: (
        "The partner's MSH seems to have moved to the Location that the last answer names. Ask the"
        " partner's operator, then correct the address in the partner's settings and test the"
        " connection: the next copy is sent there."
    ),
    Reason.NAME: (
        "The name of the partner's address does not resolve. Check the address in the partner's"
        " settings; if other names do not resolve either, fix the DNS of this host."
    ),
    Reason.CONNECTION: (
        "Nothing accepts connections at the partner's address. Test the connection; if it still"
        " fails, call the partner's operator."
    ),
    Reason.TIMEOUT: (
        "The partner did not answer in time. Test the connection; if it still fails, call the"
        " partner's operator."
    ),
    Reason.CUT: (
        "The connection broke before the answer. Test the connection; if it still fails, call the"
        " partner's operator."
    ),
    Reason.TLS: (
        "The TLS connection fails. The partner must renew its certificate, or this host must"
        " trust its CA. Then test the connection."
    ),
    Reason.WAIT: "The partner asks us to wait, and says for how long. No action is needed.",
    Reason.SERVER_ERROR: (
        "The partner's MSH answers with an internal error. If this continues, call the partner's"
        " operator and quote the answer."
    ),
    Reason.UNAVAILABLE: (
        "The partner's MSH is not available: in maintenance or overloaded. If this continues, ask"
        " the partner's operator when it is available again."
    ),
    Reason.GATEWAY: (
        "A gateway answers, but the partner's MSH behind it does not. If this continues, call"
        " the partner's operator."
    ),
    Reason.NUMBERS: (
        "The partner refuses the number of the message. When its Error message arrives or the"
        " retries are spent, the link is suspended, and its page says what to do."
    ),
    Reason.NOT_ACCEPTED: (
        "The partner refuses the message; its answer says why. When its Error message arrives or"
        " the retries are spent, the link is suspended."
    ),
    Reason.NO_ACKNOWLEDGEMENT: (
        "The partner accepts the copies, but its Acknowledgement does not reach us. Ask the"
        " partner's operator why."
    ),
}
"""What is refused for good is not sent again: Reason.MESSAGE is not here."""


def is_retrying(outcome: str, retries_spent: int) -> bool:
    """Of a message that is not acknowledged: whether the last attempt, which has ended, was in
    vain. After a first copy that was transmitted there is nothing to advise."""
    return outcome != AttemptOutcome.TRANSMITTED or retries_spent > 0


RETRIED = Q(number__gt=1) | ~Q(outcome=AttemptOutcome.TRANSMITTED)
"""The same of attempts of a message that flies: each copy after the first is a retry."""


def retrying(reason: Reason) -> Cause | None:
    """None if the answer says nothing about the cause. It helps to go somewhere: to resume does
    not, and the link need not be."""
    if reason not in RETRYING:
        return None
    known = ANSWERS[reason]
    helps = tuple(one for one in known.helps if one in (Help.PARTNER, Help.CONNECTION))
    return Cause(known.what, RETRYING[reason], known.runbook, helps)
