"""Which number an operator lets in from a partner next."""

from django.db import transaction

from msh.flows.errors import NotPossible, Proposal
from msh.flows.numbers import require_numbers
from msh.flows.operations.guard import allowed
from msh.models import Direction, InboundLink, place_of
from msh.protocol import receiver, sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.four_eyes import Act, Verb
from msh.store.history import Actor
from msh.store.operations import operator_actions
from msh.store.operations.operator_actions import EXPECTED, open_links, set_receiving
from partners.models import Agreement, Partner


def allow_reset(partner: Partner, actor: Actor) -> None:
    require_numbers(partner)
    open_links(partner)
    with transaction.atomic():
        link = _locked_inbound(partner)
        try:
            after = receiver.allow_reset(link.receiving)
        except IllegalTransition:
            nothing_came = "it has not sent anything yet"
            why = "a reset is already allowed" if link.reset_allowed else nothing_came
            raise NotPossible(
                f"Partner {partner.name} needs no permission to reset: {why}."
            ) from None
        text = f"last accepted {link.last_number}, reset allowed: no → yes"
        set_receiving(link, after, "ResetAllowed", text, actor)


def hold_resets(partner: Partner, actor: Actor) -> None:
    require_numbers(partner)
    open_links(partner)
    with transaction.atomic():
        # Before the link, as the deletion of an agreement locks them.
        list(
            Agreement.objects.select_for_update(no_key=True).filter(partner=partner).order_by("pk")
        )
        if not operator_actions.hold_resets(_locked_inbound(partner), actor):
            raise NotPossible(f"Unexpected resets of partner {partner.name} are already held.")


def expect(partner: Partner, number: int, actor: Actor) -> str:
    """Take `number` next from the partner; which ones before it are given up as lost."""
    require_numbers(partner)
    open_links(partner)
    with transaction.atomic():
        link = _locked_inbound(partner)
        lost = given_up(link, number)
        after = receiver.expect(link.receiving, number)
        text = f"last accepted {link.last_number}, expected next {number}, given up {lost}"
        with allowed(_expecting(link, number, lost), actor):
            set_receiving(link, after, EXPECTED, text, actor)
    return lost


def _expecting(link: InboundLink, number: int, lost: str) -> Proposal:
    parameters = {"partner": link.partner_id, "number": number}
    facts = f"the last accepted number is {link.last_number or 'none'}, epoch {link.epoch}"
    return Proposal(
        Act(Verb.EXPECT, "expect", parameters, facts),
        f"number {number} is expected next from {link.partner.name}; given up as lost: {lost}.",
        link.partner_id,
        Direction.IN,
        about=place_of(link),
    )


def given_up(link: InboundLink, number: int) -> str:
    """Which numbers are lost if `number` is taken next, such as "16 to 19 (4 numbers)".

    Raises NotPossible for one that cannot be: it is expected anyway, or not ahead.
    """
    if not sequence.FIRST <= number <= sequence.LAST:
        raise NotPossible(f"A number is {sequence.FIRST} to {sequence.LAST}, not {number}.")
    name, first = link.partner.name, receiver.expected_after(link.last_number)
    if number == first:
        raise NotPossible(f"Number {number} is already the expected number of {name}.")
    count = receiver.given_up(link.last_number, number)
    if not count:
        raise NotPossible(
            f"Number {number} is not ahead of the last accepted number of {name},"
            f" {link.last_number}: accepted numbers cannot be accepted again. A partner that"
            " starts again sends number 1: use allow-reset."
        )
    last = sequence.preceding(number)
    return f"{first} (1 number)" if count == 1 else f"{first} to {last} ({count:,} numbers)"


def _locked_inbound(partner: Partner) -> InboundLink:
    links = InboundLink.objects.select_related("partner")
    return links.select_for_update(of=("self",), no_key=True).get(partner=partner)
