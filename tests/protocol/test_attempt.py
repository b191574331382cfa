"""What an HTTP status and the traces of attempts mean to the Sender."""

import pytest

from msh.protocol.attempt import (
    AttemptOutcome,
    Trace,
    is_unreachable,
    not_read,
    nothing_was_sent,
    outcome_of,
    shortened,
)

STATUSES = [
    *((status, AttemptOutcome.TRANSMITTED) for status in (200, 202, 204, 299)),
    *((status, AttemptOutcome.FAILED) for status in (408, 425, 429, 500, 503, 599)),
    *((status, AttemptOutcome.REFUSED) for status in (400, 413, 415, 422)),
    *((status, AttemptOutcome.DOUBTED) for status in (301, 307, 401, 403, 404, 405, 410)),
]


@pytest.mark.parametrize(("status", "outcome"), STATUSES)
def test_outcome_of_a_status(status: int, outcome: AttemptOutcome) -> None:
    """D35."""
    assert outcome_of(status) is outcome


def test_what_only_the_transport_answers_is_unreachable() -> None:
    """EB-091: no answer, 502, 503, 504."""
    statuses = [None, *range(200, 600)]
    assert [status for status in statuses if is_unreachable(status)] == [None, 502, 503, 504]


@pytest.mark.parametrize(
    ("traces", "by_mail", "certain"),
    [
        ([], False, True),
        ([Trace(ended=True, body_sent=False)], False, True),
        ([Trace(ended=True, body_sent=False), Trace(ended=True, body_sent=True)], False, False),
        ([Trace(ended=False, body_sent=False)], False, False),
        ([Trace(ended=True, body_sent=False)], True, False),
    ],
)
def test_nothing_sent_needs_http_attempts_without_body(
    traces: list[Trace], by_mail: bool, certain: bool
) -> None:
    """D18."""
    assert nothing_was_sent(traces, by_mail=by_mail) is certain


def test_long_words_keep_their_beginning_and_their_end() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("0123456789", 9) == "012...789"


def test_what_is_not_read_is_named() -> None:
    assert not_read(7, "text/html") == "answer of 7 bytes, text/html: not read"
    assert not_read(7, "") == "answer of 7 bytes, without Content-Type: not read"
