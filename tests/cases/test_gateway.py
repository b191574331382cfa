"""A gateway in Java as it writes its requests: an offered upgrade, chunks, `start` that is the
MessageId, file names in raw UTF-8, a multipart as payload type with parameters."""

import pytest

from msh.models import InboundPayload
from partners.models import Partner
from tests.cases import package, part
from tests.endpoint.ebms2 import answers
from tests.peer.ebms2 import message
from tests.peer.sending import Request

pytestmark = pytest.mark.django_db(transaction=True)

HEADERS = {
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    "Upgrade": "h2c",
    "SOAPAction": '"ebXML"',
    "Authorization": "Bearer ebms2",
}


@pytest.mark.requirement("EB-003", "EB-051", "EB-156")
@pytest.mark.parametrize("chunk", [1, 100, 8192])
def test_request_of_a_gateway_in_java(web: str, ebms2: Partner, chunk: int) -> None:
    out = message(references=("cid:2-1@gateway", "cid:2-2@gateway"))
    boundary = "-=ea3ff0d0-1b4d-4d2c-8f6a-3a1b6d6b3d1e=-"
    envelope = f"\n{out.envelope}\n".replace("Z</eb:Timestamp>", ".123Z</eb:Timestamp>").lstrip()
    root = part(
        "Content-Type: text/xml; charset=UTF-8",
        f"Content-ID: <{out.message_id}>",
        content=envelope.encode(),
    )
    payloads = [
        part(
            "Content-Type: application/xml; charset=utf-8",
            f"Content-ID: <2-{number}@gateway>",
            f'Content-Disposition: attachment; filename="\xe5rsmelding {number} \u2705.xml"',
            *(["Content-Transfer-Encoding: binary"] if number == 2 else []),
            content=b"<a/>\r\n",
        )
        for number in (1, 2)
    ]
    related = (
        f'multipart/related; boundary="{boundary}"; type="text/xml";'
        f' start="<{out.message_id}>"; start-info="text/xml"'
    )
    body = package(root, *payloads, boundary=boundary)
    request = Request(
        web, headers={**HEADERS, "Content-Type": related}, body=body, chunked=True, chunk=chunk
    )

    assert request.send().status == 204

    assert [one.action for one in answers(out)] == ["Acknowledgment"]
    stored = InboundPayload.objects.order_by("position")
    assert [(bytes(one.content), one.label) for one in stored] == [
        (b"<a/>\r\n", f"\xe5rsmelding {number} \u2705.xml") for number in (1, 2)
    ]
