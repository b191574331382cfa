"""An ebMS 2.0 partner sends in the order of a conversation, to a web process that dies."""

from collections.abc import Iterator
from functools import partial

import pytest

from msh.faults import CrashPoint
from msh.models import InboundMessage
from partners.models import Agreement
from tests.exchange.machine import Machine
from tests.exchange.pair import WAITS
from tests.exchange.test_ebms2 import Ebms2Partner
from tests.peer import Peer
from tests.peer.ebms2 import Envelope, Outgoing, message_order
from tests.waiting import wait_until


@pytest.fixture
def sender(msh: Machine) -> Iterator[Ebms2Partner]:
    with Peer(msh.url) as peer:
        yield Ebms2Partner(msh, peer)
    msh.crash_file.unlink(missing_ok=True)


def is_taken(sender: Ebms2Partner, out: Outgoing) -> bool:
    try:
        return sender.post(out).status == 204
    except OSError:  # the web server is starting
        return False


@pytest.mark.requirement("EB-093", "EB-127")
def test_order_survives_the_death_of_the_web_process(sender: Ebms2Partner, msh: Machine) -> None:
    Agreement.objects.filter(pk=sender.agreement.pk).update(ordered=True)
    first, *later = (
        sender.message(extra=message_order(number, "Continue" if number else "Reset"))
        for number in (0, 2, 1)
    )
    sender.send(first)

    for out, point in zip(
        later, (CrashPoint.RECEIVE_BEFORE_COMMIT, CrashPoint.RECEIVE_AFTER_COMMIT), strict=True
    ):
        msh.crash_file.write_text(point)
        assert sender.post(out).status == 0
        committed = point is CrashPoint.RECEIVE_AFTER_COMMIT
        assert InboundMessage.objects.filter(message_id=out.message_id).exists() is committed
        wait_until(partial(is_taken, sender, out), seconds=WAITS)

    in_order = [first.message_id, later[1].message_id, later[0].message_id]
    wait_until(lambda: len(msh.delivered(in_order)) == len(in_order), seconds=WAITS)
    assert msh.delivered(in_order) == in_order
    acked = {Envelope(one.body).ref_to_message_id for one in sender.answers(3)}
    assert acked == set(in_order)
