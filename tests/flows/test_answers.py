"""What the last answer of a partner says about the cause, and what an operator does about it."""

import pytest

from msh.admin.framework.runbooks import RUNBOOKS
from msh.flows.operations.inspection.answers import ANSWERS, Answer, Help, answer_of
from msh.flows.operations.inspection.causes import CAUSES, cause_of
from msh.protocol.kinds import IncidentKind

SAY_NOTHING = {Answer.MAIL, Answer.OTHER, Answer.NONE}


@pytest.mark.parametrize(
    ("detail", "status", "answer"),
    [
        ("", None, Answer.NONE),
        ("401 Unauthorized", 401, Answer.CREDENTIALS),
        ("403 Forbidden: not you", None, Answer.CREDENTIALS),
        ("404 Not Found", 404, Answer.ADDRESS),
        ("302 Found", 302, Answer.ADDRESS),
        ("204 No Content", 204, Answer.NO_ACKNOWLEDGEMENT),
        ("204 No Content: number 22 came, 13 to 21 missing: expected 13", 204, Answer.NUMBERS),
        ("204 No Content: number 3 was accepted before for another MessageId", 204, Answer.NUMBERS),
        (
            "204 No Content: number 3 is not above the last accepted, 7, and its MessageId is new",
            204,
            Answer.NUMBERS,
        ),
        (
            "204 No Content: MessageId m was accepted before with other content",
            204,
            Answer.NOT_ACCEPTED,
        ),
        ("200 OK: <p>number 22 came, 13 missing: expected 13", 200, Answer.NO_ACKNOWLEDGEMENT),
        ("415 Unsupported Media Type", 415, Answer.MESSAGE),
        ("429 Too Many Requests", 429, Answer.UNAVAILABLE),
        ("503 Service Unavailable", 503, Answer.UNAVAILABLE),
        ("503 maintenance", 503, Answer.UNAVAILABLE),
        ("308 Permanent Redirect (Location: https://b.example/)", 308, Answer.MOVED),
        ("308 Permanent Redirect", 308, Answer.ADDRESS),
        ("503 Service Unavailable (Retry-After: 120 s)", 503, Answer.WAIT),
        ("502 Bad Gateway", 502, Answer.GATEWAY),
        ("418 I'm a teapot", 418, Answer.OTHER),
        ("no answer within 60 s", None, Answer.TIMEOUT),
        ("Connection closed before the answer", None, Answer.CUT),
        ("Connection broken: Connection reset by peer", None, Answer.CUT),
        ("Invalid URL: http://", None, Answer.OTHER),
        ("RCPT TO: 450 too busy", 450, Answer.MAIL),
        ("connect: [Errno 111] Connect call failed", None, Answer.MAIL),
        (
            "20 attempts in a row were not answered, the last: 503 Service Unavailable",
            None,
            Answer.UNAVAILABLE,
        ),
        (
            "3 attempts in a row were not answered, the last: no connection within 5 s",
            None,
            Answer.TIMEOUT,
        ),
        ("no Acknowledgement after 3 attempts", None, Answer.OTHER),
    ],
)
def test_answers_are_classified(detail: str, status: int | None, answer: Answer) -> None:
    """Those of the transport itself in tests/transport: test_http.py, test_http_connections.py."""
    assert answer_of(detail, status) is answer


@pytest.mark.parametrize("answer", sorted(set(Answer) - SAY_NOTHING))
def test_the_answer_decides_where_the_partner_was_silent(answer: Answer) -> None:
    assert cause_of(IncidentKind.RETRIES_SPENT, answer) is ANSWERS[answer]
    assert cause_of(IncidentKind.RESYNCHRONISE, answer) is CAUSES[IncidentKind.RESYNCHRONISE]


def test_an_answer_that_says_nothing_leaves_the_kind() -> None:
    for answer in SAY_NOTHING:
        silent = cause_of(IncidentKind.RETRIES_SPENT, answer)
        assert silent is CAUSES[IncidentKind.RETRIES_SPENT]
    assert cause_of("of a later version").advice == "Resume sending."


@pytest.mark.parametrize(
    ("kind", "answer", "first"),
    [
        (IncidentKind.RETRIES_SPENT, Answer.CREDENTIALS, Help.PARTNER),
        (IncidentKind.RETRIES_SPENT, Answer.NAME, Help.PARTNER),
        (IncidentKind.RETRIES_SPENT, Answer.CONNECTION, Help.CONNECTION),
        (IncidentKind.RETRIES_SPENT, Answer.SERVER_ERROR, Help.RESUME),
        (IncidentKind.RETRIES_SPENT, Answer.NUMBERS, Help.RESYNCHRONISE),
        (IncidentKind.RESYNCHRONISE, Answer.SERVER_ERROR, Help.RESYNCHRONISE),
        (IncidentKind.REFUSED_BY_PEER, Answer.MESSAGE, Help.MESSAGE),
    ],
)
def test_what_helps_first(kind: IncidentKind, answer: Answer, first: Help) -> None:
    assert cause_of(kind, answer).helps[0] is first


def test_every_cause_has_a_runbook() -> None:
    named = {cause.runbook for cause in (*CAUSES.values(), *ANSWERS.values())}
    assert named <= {page.stem for page in RUNBOOKS.glob("*.md")}
