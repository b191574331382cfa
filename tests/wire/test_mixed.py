"""Names of payloads as a MIME header of ours can hold them."""

from email.parser import HeaderParser
from email.policy import HTTP

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol.message import Payload
from msh.wire import ascii_type, compose_mixed
from msh.wire.text import has_control


@pytest.mark.parametrize(
    ("came", "sent"),
    [
        ("application/xml", "application/xml"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ('text/plain; name="a b"', 'text/plain; name="a b"'),
        ("text/plain; name=gr\u00fcn", "text/plain; name*=UTF-8''gr%C3%BCn"),
        ("text/plain;", "text/plain"),
        ("Text/Plain; x=\u20ac; y=1; \u00fc=2", "text/plain; x*=UTF-8''%E2%82%AC; y=\"1\""),
        ('text/plain; n="\u00fc"; m="a\\"b"', "text/plain; n*=UTF-8''%C3%BC; m*=UTF-8''a%22b"),
        ("nonsense", "application/octet-stream"),
        ("text/pl\u00e4in", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("*/*; q=1", "application/octet-stream"),
    ],
)
def test_a_content_type_in_ascii(came: str, sent: str) -> None:
    assert ascii_type(came) == sent


@given(st.text(max_size=255).filter(lambda text: not has_control(text)))
def test_payload_name_is_one_header_line(name: str) -> None:
    for content_type in (name, f'text/plain; name="{name}"', f"text/plain; {name}=1"):
        payload = Payload(b"x", content_type, name or "x")
        body = compose_mixed([payload], "mark")
        assert body.isascii()
        head = body.decode().partition("\r\n")[2].partition("\r\n\r\n")[0]
        names = [line.partition(":")[0] for line in head.split("\r\n")]
        assert names[0] == "Content-ID"
        assert names[-1] == "Content-Transfer-Encoding"
        assert len(names) == len(set(names)) in {3, 4}


def test_a_value_is_read_back_by_a_parser_that_is_not_ours() -> None:
    value = 'Bestell\u00fcbersicht \u20ac "1"; x=y.pdf'
    quoted = value.replace('"', '\\"')
    sent = ascii_type(f'application/pdf; name="{quoted}"')
    line = f"Content-Type: {sent}\n\n"
    assert HeaderParser(policy=HTTP).parsestr(line)["Content-Type"].params["name"] == value


def test_a_payload_that_holds_the_boundary_is_refused() -> None:
    with pytest.raises(ValueError, match="contains the boundary mark"):
        compose_mixed([Payload(b"a mark b", content_id="a@x")], "mark")
