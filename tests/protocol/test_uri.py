"""URIs of MSHs (D16, D56)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol.uri import (
    URI_LIMIT,
    host_of,
    is_link_local,
    mail_address,
    normalised,
    origin,
    require_usable,
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("HTTP://Receiver.Example/ebxml/", "http://receiver.example/ebxml/"),
        ("http://receiver.example:80/ebxml/", "http://receiver.example/ebxml/"),
        ("https://receiver.example:443/", "https://receiver.example/"),
        ("http://receiver.example:443/", "http://receiver.example:443/"),
        ("http://receiver.example:080/", "http://receiver.example/"),
        ("http://receiver.example:/a", "http://receiver.example/a"),
        ("http://receiver.example", "http://receiver.example/"),
        ("http://receiver.example?a=1", "http://receiver.example/?a=1"),
        ("http://[2001:DB8::1]:8080/A", "http://[2001:db8::1]:8080/A"),
        ("MAILTO:Orders@Receiver.Example", "mailto:Orders@receiver.example"),
    ],
)
def test_normalised_changes_what_d56_names(uri: str, expected: str) -> None:
    assert normalised(uri) == expected


@pytest.mark.parametrize(
    "uri",
    [
        "http://a.example/EbXML",
        "http://a.example/ebxml",
        "http://a.example/ebxml/",
        "http://a.example/a/../b",
        "http://a.example/%7Euser",
        "urn:duns:1",
        "",
        "http://",
        "not a uri",
        "http://a.example:" + "9" * 5000,
    ],
)
def test_normalised_leaves_everything_else_alone(uri: str) -> None:
    assert normalised(uri) == uri


@given(st.text() | st.from_regex(r"https?://[a-zA-Z.]+(:[0-9]{0,6})?(/.*)?", fullmatch=True))
def test_normalised_never_raises_and_is_idempotent(uri: str) -> None:
    once = normalised(uri)
    assert normalised(once) == once


@pytest.mark.parametrize(
    "uri",
    [
        "http://a.example/ebxml/",
        "https://a.example:8443/ebxml/name/?x=1",
        "http://127.0.0.1:1/",
        "http://[::1]:8000/",
        "mailto:edi@a.example",
    ],
)
def test_require_usable_takes_addresses_of_an_msh(uri: str) -> None:
    require_usable(uri)


@pytest.mark.parametrize(
    ("uri", "cure"),
    [
        ("", "is not a URI"),
        ("a.example/ebxml", "is not a URI"),
        ("ftp://a.example/", "is not a URI"),
        ("http:///path", "is not a URI"),
        ("http://a example/", "white space"),
        ("http://a.example/\n", "white space"),
        ("http://ä.example/", "not ASCII"),
        ("http://user:secret@a.example/", "credential"),
        ("http://a.example/#part", "fragment"),
        ("http://a.example:70000/", "port"),
        ("http://a.example:123456/", "is not a URI"),
        ("http://a.example:0/", "port"),
        ("mailto:edi", "is not a URI"),
        ("mailto:edi@a.example?subject=x", "is not a URI"),
        ("http://a.example/" + "a" * URI_LIMIT, "longer"),
    ],
)
def test_require_usable_refuses_with_the_cure(uri: str, cure: str) -> None:
    with pytest.raises(ValueError, match=cure):
        require_usable(uri)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("mailto:Orders@Receiver.Example", "Orders@receiver.example"),
        ("http://receiver.example/", ""),
        ("orders@receiver.example", ""),
    ],
)
def test_mail_address_is_that_of_a_mailto_uri(uri: str, address: str) -> None:
    assert mail_address(uri) == address


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("HTTPS://user@Receiver.Example:443/ebxml/?a", "https://receiver.example"),
        ("http://receiver.example:8080", "http://receiver.example:8080"),
        ("http://[2001:DB8::1]/A", "http://[2001:db8::1]"),
        ("MAILTO:orders@receiver.example", "mailto:"),
        ("ftp://receiver.example/", "ftp://receiver.example/"),
        ("", ""),
    ],
)
def test_origin_is_who_is_shown_what_goes_there(uri: str, expected: str) -> None:
    assert origin(uri) == expected


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://User@MSH.Example:8443/ebxml", "msh.example"),
        ("http://[2001:DB8::1]:80/", "2001:db8::1"),
        ("mailto:a@Mail.Example", "mail.example"),
        ("urn:x", ""),
    ],
)
def test_host_of(text: str, host: str) -> None:
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("host", "link_local"),
    [
        *((one, True) for one in ("169.254.169.254", "169.254.0.1", "[fe80::1]", "febf::1")),
        *((one, True) for one in ("FE80::1", "fe80::1%eth0", "::ffff:169.254.169.254")),
        *((one, True) for one in ("::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1")),
        *((one, False) for one in ("127.0.0.1", "10.0.0.1", "169.253.1.1", "::1", "fec0::1")),
        *((one, False) for one in ("64:ff9b::a00:1", "2001:db8::1", "host.example", "a.b", "")),
    ],
)
def test_link_local_addresses_in_any_form(host: str, link_local: bool) -> None:
    assert is_link_local(host) is link_local


@pytest.mark.parametrize("address", ["http://169.254.169.254/x", "http://[fe80::1]:80/"])
def test_uri_with_a_link_local_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="link-local"):
        require_usable(address)
