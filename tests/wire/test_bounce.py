"""What is read of a mail that came back, and of an automatic reply."""

import base64

import pytest

from msh.protocol.errors import Unreadable
from msh.protocol.mail import about_header
from msh.wire import DeliveryReport, delivery_report, is_automatic
from msh.wire.bounce import ABOUT_LIMIT

FAILED = "Action: failed\r\nStatus: 5.2.2\r\nDiagnostic-Code: smtp; 552 mailbox full"


def report(
    returned: bytes = b"Message-ID: <x@y>\r\n\r\n",
    recipients: str = FAILED,
    kind: str = "message/rfc822",
    head: str = "",
) -> bytes:
    lines = (
        f"{head}Message-ID: <dsn@host>",
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
        "",
        "--b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; host",
        "",
        recipients,
        "--b",
        f"Content-Type: {kind}",
        "",
    )
    return "\r\n".join(lines).encode() + b"\r\n" + returned + b"\r\n--b--\r\n"


def read(mail: bytes) -> DeliveryReport:
    found = delivery_report(mail)
    assert found is not None
    return found


def test_action_status_and_words_of_the_recipient_that_failed() -> None:
    found = read(report(recipients=f"Action: relayed\r\nStatus: 2.0.0\r\n\r\n{FAILED}"))
    assert found == DeliveryReport("failed", "5.2.2", "552 mailbox full", ("x@y",))
    assert found.words == "bounced: 5.2.2 552 mailbox full"
    assert found.refuses


@pytest.mark.parametrize(
    ("recipients", "words", "refuses"),
    [
        ("Action: failed\r\nStatus: 4.4.1 (no answer)", "bounced: 4.4.1", False),
        ("Action: delayed\r\nStatus: 5.2.2", "delayed: 5.2.2", False),
        ("Action: FAILED\r\nStatus: 5.1.1", "bounced: 5.1.1", True),
        ("Action: failed\r\nStatus: gone", "bounced", False),
        (
            "Status: 5.0.0\r\nDiagnostic-Code: no such\r\n user",
            "reported: 5.0.0 no such user",
            False,
        ),
    ],
)
def test_only_a_failure_of_class_5_refuses(recipients: str, words: str, refuses: bool) -> None:
    found = read(report(recipients=recipients))
    assert (found.words, found.refuses) == (words, refuses)


@pytest.mark.parametrize("message_id", ["a@b", "x/y?z=%41", "größe@köln", "a b", "<a>", "'\"@x"])
@pytest.mark.parametrize("kind", ["message/rfc822", "text/rfc822-headers"])
def test_our_header_names_the_message_whatever_its_id(message_id: str, kind: str) -> None:
    header = about_header(message_id)
    assert header.isascii()
    assert header.count("\r\n") == 1
    assert read(report(header.encode() + b"\r\n", kind=kind)).about[0] == message_id


def test_an_id_that_is_too_long_for_a_header_has_none() -> None:
    assert about_header("ü" * 255) == about_header("") == ""


@pytest.mark.parametrize("encoding", ["8bit", "base64"])
def test_ids_in_what_is_returned(encoding: str) -> None:
    envelope = b"<eb:MessageData><eb:MessageId> a&amp;b@us </eb:MessageId></eb:MessageData>"
    body = base64.encodebytes(envelope) if encoding == "base64" else envelope
    head = f"Message-ID: <c@d>\r\nContent-Type: text/xml\r\nContent-Transfer-Encoding: {encoding}"
    found = read(
        report(
            f"{head}\r\n\r\n".encode() + body,
            head="In-Reply-To: <e@f>\r\nReferences: <g@h> <e@f>\r\n",
        )
    )
    assert found.about == ("a&b@us", "c@d", "e@f", "g@h")


def test_a_message_that_breaks_off_is_found_by_its_beginning() -> None:
    returned = b"Message-ID: <c@d>\r\nContent-Type: text/xml\r\n\r\n<Mess"
    assert read(report(returned)).about == ("c@d",)


@pytest.mark.parametrize(
    "mail",
    [
        b"Content-Type: text/plain\r\n\r\nmailbox full",
        b"Content-Type: multipart/report; report-type=disposition-notification; boundary=b\r\n\r\n",
        b"Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\nStatus: 5.2.2\r\n\r\n--b--",
        b"",
    ],
)
def test_other_mails_are_no_report(mail: bytes) -> None:
    assert delivery_report(mail) is None


def test_mails_within_mails_without_end_are_refused() -> None:
    with pytest.raises(Unreadable, match="too many parts"):
        delivery_report(report(b"Content-Type: message/rfc822\r\n\r\n" * 3000))


def test_parts_within_parts_are_read_up_to_a_limit() -> None:
    """Each line behind them would be compared with all their boundaries."""
    nested = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n)
        for n in range(3000)
    )
    assert read(report(nested + b"\r\n" * 100_000)).refuses


@pytest.mark.parametrize(
    ("head", "automatic"),
    [
        ("Auto-Submitted: auto-replied\r\nContent-Type: text/plain", True),
        ("Auto-Submitted: auto-generated; x=y", True),
        ("Auto-Submitted: No\r\nContent-Type: text/plain", False),
        ("Content-Type: text/plain", False),
        ("Auto-Submitted: auto-generated\r\nContent-Type: text/xml", False),
        ("Auto-Submitted: auto-generated\r\nContent-Type: multipart/related; boundary=b", False),
        ("Auto-Submitted: auto-replied\r\nContent-Type: multipart/report; boundary=b", True),
    ],
)
def test_an_automatic_reply_is_one_that_is_no_message(head: str, automatic: bool) -> None:
    assert is_automatic(f"{head}\r\n\r\nx".encode()) is automatic


@pytest.mark.parametrize(
    "text", [b"<MessageId>" + b" " * 100_000, b"<MessageId " * 90_000, b"<" + b"a" * 100_000]
)
def test_a_report_is_read_once_whatever_it_quotes(text: bytes) -> None:
    """The process of the mail server does nothing else meanwhile."""
    quoted = b"Message-ID: <x@y>\r\n\r\n" + text
    assert read(report(quoted)).about == ("x@y",)


def test_a_report_is_about_few_messages() -> None:
    """Each of them is looked for."""
    returned = b"\r\n" + b"".join(b"<MessageId> %d@y </MessageId>" % one for one in range(1000))
    assert read(report(returned)).about == tuple(f"{one}@y" for one in range(ABOUT_LIMIT))
