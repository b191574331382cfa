"""Why an attempt ended as it did, by what is known of it."""

import pytest

from msh.protocol import effects as do
from msh.protocol.attempt import AttemptOutcome, AttemptResult, outcome_of
from msh.protocol.reason import Reason, Refusal, deciding, of_refusal, of_words, refusal_of
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink, step


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (204, Reason.NO_ACKNOWLEDGEMENT),
        (302, Reason.ADDRESS),
        (400, Reason.MESSAGE),
        (401, Reason.CREDENTIALS),
        (403, Reason.CREDENTIALS),
        (404, Reason.ADDRESS),
        (408, Reason.SERVER_ERROR),
        (415, Reason.MESSAGE),
        (418, Reason.OTHER),
        (429, Reason.UNAVAILABLE),
        (500, Reason.SERVER_ERROR),
        (502, Reason.GATEWAY),
        (503, Reason.UNAVAILABLE),
        (599, Reason.SERVER_ERROR),
    ],
)
def test_a_status_says_why_whatever_the_words_are(status: int, reason: Reason) -> None:
    words = "503 no answer within 3 s (Retry-After: 7 s): number 2 came, 1 missing: expected 1"
    assert AttemptResult(outcome_of(status), status, words).reason is reason


@pytest.mark.parametrize(
    ("status", "reason"),
    [(429, Reason.WAIT), (503, Reason.WAIT), (500, Reason.SERVER_ERROR), (502, Reason.GATEWAY)],
)
def test_a_partner_that_asks_to_wait_says_so_where_it_may(status: int, reason: Reason) -> None:
    assert AttemptResult(outcome_of(status), status, retry_after=0.0).reason is reason


def test_what_the_transport_knows_is_kept_and_without_it_nothing_is_known() -> None:
    assert AttemptResult(AttemptOutcome.FAILED, 503, reason=Reason.MAIL).reason is Reason.MAIL
    assert AttemptResult(AttemptOutcome.FAILED, detail="no answer within 3 s").reason is (
        Reason.OTHER
    )


@pytest.mark.parametrize(
    ("last", "number", "known", "reason"),
    [
        (3, 9, Known.NO, Reason.NUMBERS),
        (3, 5, Known.NO, Reason.NUMBERS),
        (3, 3, Known.NO, Reason.NUMBERS),
        (3, 2, Known.NO, Reason.NUMBERS),
        (None, 2, Known.NO, Reason.NUMBERS),
        (3, 4, Known.OTHER, Reason.NOT_ACCEPTED),
        (3, 3, Known.WITHHELD, Reason.NOT_ACCEPTED),
    ],
)
def test_each_refusal_of_our_own_receiver_is_understood(
    last: int | None, number: int, known: Known, reason: Reason
) -> None:
    """The sentence and what is read from it are two places: a new wording must not part them."""
    _, effects = step(ReceivingLink(last), MessageArrived("m", number, known))
    (error,) = (one for one in effects if isinstance(one, do.QueueError))
    assert of_refusal(error.description) is reason


@pytest.mark.parametrize(
    "said",
    [
        "SecurityFailure: us: not permitted",
        "sender us is unknown",
        "The Sender\nurn:us is not authorised here",
    ],
)
def test_a_partner_that_does_not_let_us_send_says_so_in_its_words(said: str) -> None:
    assert of_words(said) is of_refusal(said) is Reason.SENDER


@pytest.mark.parametrize("said", ["", "token expired", "sender was taken, the part was not"])
def test_other_words_say_no_more_than_their_status(said: str) -> None:
    assert of_words(said) is Reason.NONE
    assert of_refusal(said) is Reason.NOT_ACCEPTED


@pytest.mark.parametrize(
    ("named", "answered", "reason"),
    [
        (Reason.NUMBERS, Reason.SERVER_ERROR, Reason.NUMBERS),
        (Reason.SENDER, Reason.NO_ACKNOWLEDGEMENT, Reason.SENDER),
        (Reason.CREDENTIALS, Reason.TLS, Reason.TLS),
        (Reason.CREDENTIALS, Reason.NONE, Reason.CREDENTIALS),
        (Reason.CREDENTIALS, Reason.OTHER, Reason.CREDENTIALS),
        (Reason.NONE, Reason.TLS, Reason.TLS),
    ],
)
def test_what_an_error_names_decides_over_the_answer_to_the_last_copy(
    named: Reason, answered: Reason, reason: Reason
) -> None:
    assert deciding(named, answered) is reason


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, Refusal.REQUEST),
        (401, Refusal.CREDENTIALS),
        (408, Refusal.INCOMPLETE),
        (413, Refusal.TOO_LARGE),
        (418, Refusal.REQUEST),
        (431, Refusal.TOO_LARGE),
        (503, Refusal.BUSY),
    ],
)
def test_a_refusal_by_us_has_a_code_if_only_its_status_is_known(status: int, code: Refusal) -> None:
    assert refusal_of(status) is code
