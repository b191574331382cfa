"""The corpus through the socket of a web process, under agreements that fit each message."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from msh.models import InboundMessage, Signal
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import Party
from msh.wire.ebms2.envelope import parse
from partners.models import Agreement, Credential, Partner, digest_of
from tests.peer.ebms2 import Envelope
from tests.peer.sending import Request, Response
from tests.web import web_process

from .reading import LEFT_TO_THE_APPLICATION, Outcome, read_corpus

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 30.0  # seconds for one answer


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    with web_process(tmp_path) as port:
        yield f"http://127.0.0.1:{port}/ebxml/"


def agree(number: int, content_type: str, body: bytes) -> None:
    """A partner for each message, because who sends too much that is refused gets 429; and an
    agreement as the message wants it, if it says who it is from."""
    uri = f"http://peer-{number}.example/ebms/"
    partner = Partner.objects.create(name=f"peer-{number}", uri=uri)
    Credential.objects.create(partner=partner, sha256=digest_of(f"peer-{number}"))
    try:
        header = parse(content_type, body).message.header
    except (NotAMessage, Unusable):
        return
    Agreement.objects.filter(tpa_id=header.cpa_id).update(tpa_id=f"earlier-{number}")
    ours, theirs = _party("our", header.to_party), _party("their", header.from_party)
    agreement = {"dialect": "ebms2", "tpa_id": header.cpa_id, "service_type": header.service.type}
    lenient = list(LEFT_TO_THE_APPLICATION)
    Agreement.objects.create(partner=partner, **agreement, **ours, **theirs, lenient=lenient)


def _party(whose: str, party: Party) -> dict[str, str]:
    one = party.party_ids[0]
    named = {f"{whose}_party": one.value, f"{whose}_party_context": one.type}
    return named | {f"{whose}_role": party.role}


def assert_answered(outcome: Outcome, response: Response) -> None:
    name = outcome.label
    assert response.status in (200, 204, 400, 403, 500), f"{name}: {response.status}"
    assert response.ended_at - response.began_at < PATIENCE, name
    if response.status in (403, 500):
        fault = "Server" if response.status == 403 else "Client"  # EB-153
        assert Envelope(response.body).fault_code == fault, f"{name}: {response.error}"
    assert response.error or response.status < 300, name


@pytest.mark.requirement("EB-152", "EB-153")
def test_every_message_is_answered(corpus: Path, web: str) -> None:
    """Stored, or refused by a MessageError or a Fault: never a failure of ours, or silence."""
    for number, outcome in enumerate(read_corpus(corpus)):
        request = outcome.request
        agree(number, request.content_type, request.body)
        token = f"Bearer peer-{number}"
        shown = {"Content-Type": request.content_type, "Authorization": token}
        response = Request(web, headers=shown, body=request.body).send(PATIENCE)
        assert_answered(outcome, response)
    assert InboundMessage.objects.count() > 20
    assert Signal.objects.filter(kind="Error").count() > 10
