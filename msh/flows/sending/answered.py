"""What a partner answers to a message of ours that flies: its Acknowledgment, or Errors."""

from collections.abc import Sequence

from msh.flows.wake_up import wake_up_for_flights
from msh.protocol.flight.answers import events_of
from msh.protocol.message import ErrorReport
from msh.store.flights.flights import Flights
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
    MessageId: then the answer counts for nothing (EB-086, EB-104). An Error wins over an
    Acknowledgment beside it (EB-060); an answer to a message that has ended is counted or noted.
    """
    events = events_of(ref_to_message_id, errors, acknowledged=acknowledged)
    with short_transaction():
        flights, key = Flights.lock_one(partner_id, ref_to_message_id, agreement_id)
        if key is None:
            return False
        for event in events:
            flights.step(key, event)
        flights.write(last=True)
    wake_up_for_flights(flights)
    return True
