"""Packages with very many parts, and very large ones."""

import tracemalloc

import pytest
from django.contrib.auth.models import User
from django.test import Client

from msh.flows.operations.tokens import make
from msh.models import InboundMessage, InboundPayload, Scope
from msh.wire.ebms2 import envelope
from tests.admin.conftest import url
from tests.cases import package, part, payload, root_of
from tests.cases.conftest import Post
from tests.endpoint.conftest import MESSAGE_LIMIT
from tests.endpoint.ebms2 import Send, answers
from tests.peer.ebms2 import Outgoing, message

pytestmark = pytest.mark.django_db(transaction=True)

RELATED = 'multipart/related; type="text/xml"; boundary="b"'


def of_parts(count: int, named: int, size: int) -> tuple[Outgoing, bytes]:
    out = message(references=tuple(f"cid:{number}@p" for number in range(named)))
    parts = (payload(b"x" * size, name=f"<{number}@p>") for number in range(count))
    return out, package(root_of(out), *parts, boundary="b")


@pytest.mark.requirement("EB-014")
def test_ten_thousand_parts_take_no_memory() -> None:
    _, body = of_parts(10_000, 3, 100)
    tracemalloc.start()
    received = envelope.parse(RELATED, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "more than 1000 parts" in received.defects[0].error.description
    assert peak < 2 * len(body)


@pytest.mark.requirement("EB-014")
def test_package_of_more_than_a_thousand_parts_is_a_mime_problem(post: Post, send: Send) -> None:
    """Here within the limit of the size."""
    out, body = of_parts(1_100, 3, 1)
    assert len(body) < MESSAGE_LIMIT

    response = post(body, RELATED)

    assert response.status == 204
    (answer,) = answers(out)
    assert {code for code, _ in answer.errors} == {"MimeProblem"}
    assert "more than 1000 parts" in answer.text("eb:Error/eb:Description")
    assert len(answer.errors) <= 10
    assert send(message()).status == 204


def test_nine_hundred_payloads_can_be_looked_at(post: Post) -> None:
    """The page, the export and the document of the API of a message with so many open."""
    parts = tuple(part(f"Content-ID: <{number}@p>", content=b"1") for number in range(900))
    out = message(references=tuple(f"cid:{number}@p" for number in range(900)))
    body = package(root_of(out), *parts, boundary="b")
    assert len(body) < MESSAGE_LIMIT

    assert post(body, RELATED).status == 204

    assert [one.action for one in answers(out)] == ["Acknowledgment"]
    stored = InboundMessage.objects.get()
    assert InboundPayload.objects.filter(message=stored).count() == 900
    client = Client()
    user = User.objects.create_superuser("ann")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(url(InboundMessage, "change", stored.pk))
    assert page.status_code == 200
    assert "899@p" in page.content.decode()
    assert client.post(f"{url(InboundMessage, 'changelist')}rows/", {"format": "json"}).streaming
    _, secret = make("reader", [Scope.READ, Scope.READ_PAYLOAD])
    shown = {"Authorization": f"Bearer {secret}"}
    feed = client.get("/api/v1/inbound?payloads=true", headers=shown)
    assert feed.status_code in (200, 400)
    one = client.get(f"/api/v1/inbound/{stored.pk}/payloads/899", headers=shown)
    assert one.status_code == 200


@pytest.mark.requirement("EB-153")
def test_message_over_the_limit_says_the_limit(post: Post) -> None:
    response = post(b"x" * (MESSAGE_LIMIT + 1), RELATED)

    assert response.status == 413
    assert str(MESSAGE_LIMIT) in response.error
