"""Packages that are put together in another way than ours."""

from itertools import product

import pytest

from msh.models import InboundMessage, InboundPayload
from tests.cases import NAMED, package, part, payload, root_of
from tests.cases.conftest import Post
from tests.endpoint.ebms2 import answers, assert_fault
from tests.peer.ebms2 import Outgoing, message

pytestmark = pytest.mark.django_db(transaction=True)

RELATED = 'multipart/related; type="text/xml"; boundary="peer-boundary"'


def assert_acknowledged(out: Outgoing, *contents: bytes) -> None:
    (answer,) = answers(out)
    assert (answer.action, answer.ref_to_message_id) == ("Acknowledgment", out.message_id)
    stored = InboundMessage.objects.get(message_id=out.message_id)
    payloads = InboundPayload.objects.filter(message=stored)
    assert [bytes(one.content) for one in payloads] == list(contents)


@pytest.mark.parametrize(
    ("boundary", "form"),
    [
        *product(
            ["<<001-6a1f0c-119e>>", "==--27089--16668--==", "=_"],
            ['boundary="{}"', "boundary={}", "boundary={}; x=y"],
        ),
        ("a b", 'boundary="{}"'),  # only quotation marks keep a space
    ],
)
def test_odd_boundaries(post: Post, boundary: str, form: str) -> None:
    """Old Exchange and Lotus put brackets around it, and leave the quotation marks out."""
    out = message()
    body = package(root_of(out), payload(), boundary=boundary)

    response = post(body, f'multipart/related; type="text/xml"; {form.format(boundary)}')

    assert response.status == 204
    assert_acknowledged(out, b"<order/>")


def test_whole_content_type_in_quotation_marks(post: Post) -> None:
    """It is no media type: the answer quotes it."""
    out = message()
    quoted = RELATED.replace('"', '\\"')

    response = post(package(root_of(out), payload()), f'"{quoted}"')

    assert response.status in (400, 415)
    assert '"multipart/related' in response.error
    assert not InboundMessage.objects.exists()


def test_mime_headers_of_the_package_stand_in_the_body_too(post: Post) -> None:
    out = message()
    repeated = f"Content-Type: {RELATED}\r\nMIME-Version: 1.0\r\n\r\n".encode()

    assert post(repeated + package(root_of(out), payload()), RELATED).status == 204
    assert_acknowledged(out, b"<order/>")


@pytest.mark.requirement("EB-007", "EB-047")
@pytest.mark.parametrize(
    ("name", "href"),
    [
        ("order@peer", "cid:order%40peer"),
        ("<order@peer>", "CID:order@peer"),
        ("< order@peer >", "cid:order@peer"),
        ("<order%40peer>", "cid:order@peer"),
        ("<order@peer> (the order)", "cid:order@peer"),
        ("<order@peer>", "cid:&lt;order@peer&gt;"),
        ("<order@peer>", "cid:%3Corder%40peer%3E"),
        ("<o&quot;r:d/e+r@peer>", "cid:o%26quot;r:d/e%2Br@peer"),
        (f"<{'o' * 1500}@peer>", f"cid:{'o' * 1500}@peer"),
    ],
)
def test_content_ids_as_others_write_them(post: Post, name: str, href: str) -> None:
    out = message(references=(href, "cid:second@peer"))
    second = payload(b"2", "Content-Type: text/plain", name="<second@peer>")
    body = package(root_of(out), second, payload(name=name))

    assert post(body, RELATED).status == 204
    assert_acknowledged(out, b"<order/>", b"2")


@pytest.mark.requirement("EB-048")
def test_reference_without_cid(post: Post) -> None:
    """It is a relative URI and names no part: the Error says which does not match which."""
    out = message(references=("order@peer",))

    assert post(package(root_of(out), payload()), RELATED).status == 204

    (answer,) = answers(out)
    assert answer.errors == [("MimeProblem", "cid:order@peer")]
    text = answer.text("eb:Error/eb:Description")
    assert "not named in the Manifest" in text
    assert "'order@peer' does not begin with cid:" in text


@pytest.mark.requirement("EB-004", "EB-155")
@pytest.mark.parametrize(
    "kind",
    ["application/xop+xml", "APPLICATION/XOP+XML", "application/xop+xml;type=x", "image/png", "x"],
)
def test_mtom_package(post: Post, kind: str) -> None:
    """Its Content-Type says that it is none of ours, so nothing reads it, as the draft or not."""
    out = message()
    head = [f"Content-ID: {NAMED}", 'Content-Type: application/xop+xml; type="text/xml"']
    body = package(root_of(out, *head), payload())

    response = post(body, RELATED.replace("text/xml", kind) + '; start-info="text/xml"')

    assert response.status == 415
    assert kind.partition(";")[0].lower() in response.error
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-155")
@pytest.mark.parametrize("kind", ["application/soap+xml", "application/soap+xml; action=x"])
def test_soap_1_2_is_415(post: Post, kind: str) -> None:
    assert post(message(payloads=()).body, kind).status == 415


@pytest.mark.requirement("EB-003", "EB-004")
@pytest.mark.parametrize(
    "related",
    ["multipart/related; boundary=peer-boundary", f'{RELATED}; start=""', RELATED],
)
@pytest.mark.parametrize("headers", [(), ("X-Nothing: known",), ("Content-Type: text/xml",)])
def test_root_part_without_any_name(post: Post, related: str, headers: tuple[str, ...]) -> None:
    """The first part is the root. It may have no header at all, and be the envelope."""
    out = message()
    root = part(*headers, content=out.envelope.encode())

    assert post(package(root, payload()), related).status == 204
    assert_acknowledged(out, b"<order/>")


@pytest.mark.requirement("EB-003")
@pytest.mark.parametrize(
    "start", ['"<envelope@peer>"', "envelope@peer", '"%3Cenvelope@peer%3E"', "cid:envelope%40peer"]
)
def test_root_stands_last(post: Post, start: str) -> None:
    out = message()
    content_type = f"multipart/related; boundary=peer-boundary; start={start}"

    assert post(package(payload(b"a" * 50_000), root_of(out)), content_type).status == 204
    assert_acknowledged(out, b"a" * 50_000)


def test_content_type_is_split_and_has_comments(post: Post) -> None:
    out = message()
    content_type = (
        'multipart/related (a package); type="text/xml" (SOAP);'
        ' boundary*0="peer-"; boundary*1=boundary'
    )

    assert post(package(root_of(out), payload()), content_type).status == 204
    assert_acknowledged(out, b"<order/>")


@pytest.mark.requirement("EB-013")
def test_root_that_start_does_not_find_is_a_mime_problem(post: Post) -> None:
    out = message()

    assert post(package(root_of(out), payload()), f"{RELATED}; start=other").status == 204

    (answer,) = answers(out)
    assert [code for code, _ in answer.errors] == ["MimeProblem"]


def test_body_is_no_package(post: Post) -> None:
    assert_fault(post(b"nothing", RELATED), 500, "Client")
