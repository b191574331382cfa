"""ebMS 2.0 through a socket: who is taken for whom, what is stored, and how it is answered."""

from collections.abc import Callable
from typing import Any

from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage, Signal
from partners.models import Agreement, Partner
from tests.peer.ebms2 import Envelope, Outgoing, message
from tests.peer.sending import Response

Send = Callable[..., Response]


def agree(partner: Partner, **terms: Any) -> Agreement:
    parties = {"our_party": "111111111", "their_party": "222222222"}
    types = {"our_party_context": "DUNS", "their_party_context": "DUNS"}
    fields: dict[str, Any] = {"tpa_id": "cpa-1", "dialect": "ebms2", **parties, **types, **terms}
    return Agreement.objects.create(partner=partner, **fields)


def kept_refusal(name: str = "clinic") -> Signal:
    """Of a message whose TimeToLive was over when it came, from a new partner of this name."""
    partner = Partner.objects.create(name=name, uri=f"http://{name}.example/ebms/")
    cpa = agree(partner, tpa_id=f"cpa-{name}").tpa_id
    over = "2020-01-01T00:00:00Z"
    out = message(message_id=f"late@{name}", cpa_id=cpa, time_to_live=over)
    assert receive(partner, Incoming(out.content_type, out.body)).reason
    return Signal.objects.get(link__partner=partner)


def answers(out: Outgoing) -> list[Envelope]:
    """What is to be POSTed about this message."""
    signals = Signal.objects.filter(ref_to_message_id=out.message_id).order_by("pk")
    return [Envelope(bytes(one.body or b"")) for one in signals]


def let_answers_leave() -> None:
    """All that is pending has been transmitted."""
    Signal.objects.filter(pending__gt=0).update(pending=0, sending=False, transmitted=1)


def assert_fault(response: Response, status: int, code: str) -> None:
    assert response.status == status
    assert response.headers["Content-Type"] == 'text/xml; charset="UTF-8"'
    assert response.headers["SOAPAction"] == '"ebXML"'
    assert Envelope(response.body).fault_code == code


def assert_refused(send: Send, out: Outgoing, *errors: tuple[str, str]) -> None:
    """By a MessageError; nothing is stored but the refusal."""
    response = send(out)
    assert (response.status, response.body) == (204, b"")
    assert response.error
    (answer,) = answers(out)
    assert answer.action == "MessageError"
    assert [(code, place.rpartition("/")[2]) for code, place in answer.errors] == list(errors)
    assert not InboundMessage.objects.exists()
