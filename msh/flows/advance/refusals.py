"""Refusals and signals that move nothing: each has rows of its own, and a partner can make as many
as he likes. Beyond what is allowed they are counted in one row of the history a minute."""

from msh.allowance import refusals
from msh.models import hot
from msh.protocol.errors import RefusedTooOften
from msh.protocol.vocabulary import ErrorCode

from .actor import SYSTEM

_TOLD_BEFORE = """
    SELECT EXISTS (
        SELECT FROM msh_signal
        WHERE link_id = %s AND kind = 'Error' AND code = %s AND ref_to_message_id = %s) AS told
"""


def spend_refusal(partner_id: int, link_id: int, code: str, message_id: str) -> None:
    """This message is to be answered by an Error Message. Raises RefusedTooOften.

    Who was told to wait and comes again is not refused for good: that costs nothing.
    """
    again = (_TOLD_BEFORE, (link_id, code, message_id))
    if code == ErrorCode.TRANSIENT_ERROR and hot.run(again)[0][0].told:
        return
    if wait := refusals.wait(partner_id):
        raise RefusedTooOften(wait)
    refusals.spend(partner_id)


def may_note(partner_id: int) -> bool:
    """May a signal that moves nothing have a row of its own?"""
    if refusals.wait(partner_id):
        return False
    refusals.spend(partner_id)
    return True


def count_unanswered(partner_id: int) -> None:
    """A message was refused without an Error Message."""
    _count(partner_id, "RefusalsNotAnswered", "too many are refused: 429 instead of an Error")


def count_unnoted(partner_id: int) -> None:
    """A signal moved nothing, and has no row of its own."""
    _count(partner_id, "SignalsNotNoted", "too many that move nothing")


def _count(partner_id: int, event: str, detail: str) -> None:
    ((clock,),) = hot.run((hot.CLOCK, ()))
    row = (clock.now, SYSTEM, partner_id, "in", "link", "", event, "", "", detail)
    hot.run((hot.COUNT_HISTORY, row))
