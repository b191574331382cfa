"""What a partner answers to a message of ours: its Acknowledgment, or Errors."""

from collections.abc import Iterable, Sequence

from msh.flows.wake_up import wake_up_for
from msh.protocol.ebms.message import AnswerTo, reports_of
from msh.protocol.ebms.vocabulary import Kind
from msh.protocol.flight.answers import events_of, text_of
from msh.protocol.flight.gate import PartnerHeard
from msh.protocol.message import ErrorReport
from msh.store.flights.flights import Flights
from msh.store.receiving.refusals import note
from msh.store.sending import best_effort
from msh.store.transactions import short_transaction


def take_answer(
    partner_id: int,
    agreement_id: int,
    ref_to_message_id: str,
    *,
    acknowledged: bool,
    errors: Sequence[ErrorReport] = (),
) -> bool:
    """Step the flight of the message that the answer is about, in a transaction of its own. The
    caller has attributed the answer to this agreement of the partner.

    False, with nothing written, if no message of ours to this partner under this agreement has that
    MessageId, or it is BestEffort and acknowledged: then the answer counts for nothing (EB-086,
    EB-104). An Error wins over an Acknowledgment beside it (EB-060); an answer to a message that
    has ended is counted or noted.
    """
    events = events_of(ref_to_message_id, errors, acknowledged=acknowledged)
    about = (partner_id, agreement_id, ref_to_message_id)
    with short_transaction():
        flights, key = Flights.lock_one(
            partner_id, ref_to_message_id, agreement_id, refused=bool(errors)
        )
        if key is not None:
            for event in events:
                flights.step(key, event)
        elif not (errors and best_effort.add_errors(flights, *about, errors)):
            return False
        flights.write(last=True)
    wake_up_for(flights)
    return True


def take_answers(partner_id: int, agreement_id: int, answers: Iterable[AnswerTo]) -> None:
    """All that a partner says in one message. What refers to no message of ours that may be
    answered is noted only."""
    for one in answers:
        about = (partner_id, agreement_id, one.message_id)
        errors = reports_of(one.errors)
        if not take_answer(*about, acknowledged=one.acknowledged, errors=errors):
            name = f"{Kind.MESSAGE_ERROR if errors else Kind.ACKNOWLEDGMENT}Received"
            said = "; ".join(("refers to no message that it can be about", *map(text_of, errors)))
            note(partner_id, one.message_id, name, said)


def hear(partner_id: int) -> None:
    """The partner, which seemed to be silent, has sent us something: a probe may leave (EB-091)."""
    with short_transaction():
        flights = Flights.lock_gate(partner_id)
        if flights.gate(partner_id) is None:
            return
        flights.step_gate(partner_id, PartnerHeard())
        flights.write(last=True)
    wake_up_for(flights)
