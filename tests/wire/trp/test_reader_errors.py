"""Header document to Header: the ErrorHeader."""

import pytest

from msh.protocol.vocabulary import ErrorCode, Severity
from tests.wire.samples import changed, normal
from tests.wire.trp.reading import header, of_type

ERROR = """
  <ErrorHeader>
    <Error>
      <ErrorCode>TransientError</ErrorCode>
      <Severity>TransientError</Severity>
      <MinRetrySecs>120</MinRetrySecs>
      <Location>/ebXMLHeader/RoutingHeader/SequenceNumber</Location>
      <Description xml:lang="en">come back later</Description>
    </Error>
  </ErrorHeader>
"""


def with_error(error: str = ERROR) -> str:
    return changed("</ebXMLHeader>", f"{error}</ebXMLHeader>", of_type("Error"))


def test_an_error_header_is_read() -> None:
    report = header(with_error()).error
    assert report is not None
    assert (report.code, report.severity) == (ErrorCode.TRANSIENT_ERROR, Severity.TRANSIENT_ERROR)
    assert report.min_retry_secs == 120
    assert report.location == "/ebXMLHeader/RoutingHeader/SequenceNumber"
    assert report.description == "come back later"
    assert report.code_text == ""


def test_the_draft_writes_transient_error_as_two_words() -> None:
    """000 section 4.2."""
    report = header(with_error(ERROR.replace("TransientError<", "Transient Error<"))).error
    assert report is not None
    assert (report.code, report.severity) == (ErrorCode.TRANSIENT_ERROR, Severity.TRANSIENT_ERROR)


def test_a_severity_in_two_words_is_not_that_of_the_code() -> None:
    error = ERROR.replace("<Severity>TransientError", "<Severity>Hard Error")
    report = header(with_error(error)).error
    assert report is not None
    assert report.severity is Severity.HARD_ERROR


@pytest.mark.requirement("000-080")
@pytest.mark.parametrize(
    "text", ["-1", "soon", "", "1.5", "\u0661", "9" * 5_000, "<a/>"], ids=ascii
)
def test_min_retry_secs_that_is_no_number_counts_as_absent(text: str) -> None:
    """D54."""
    report = header(with_error(ERROR.replace("120", text))).error
    assert report is not None
    assert report.min_retry_secs is None


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), (" 007 ", 7), ("9" * 18, 10**18 - 1)])
def test_min_retry_secs_is_read_as_seconds(text: str, seconds: int) -> None:
    report = header(with_error(ERROR.replace("120", text))).error
    assert report is not None
    assert report.min_retry_secs == seconds


def test_an_unknown_code_keeps_its_text() -> None:
    """D26."""
    error = ERROR.replace("<ErrorCode>TransientError", "<ErrorCode>Gone Fishing")
    report = header(with_error(error)).error
    assert report is not None
    assert (report.code, report.code_text) == (ErrorCode.UNKNOWN, "Gone Fishing")


@pytest.mark.parametrize("severity", ["", "Grave", "transienterror"])
def test_an_unknown_severity_is_that_of_the_code(severity: str) -> None:
    line = "<Severity>TransientError</Severity>"
    error = changed(line, f"<Severity>{severity}</Severity>", ERROR)
    report = header(with_error(error)).error
    assert report is not None
    assert report.severity is Severity.TRANSIENT_ERROR
    report = header(with_error(error.replace("<ErrorCode>Tr", "<ErrorCode>x"))).error
    assert report is not None
    assert report.severity is Severity.HARD_ERROR


@pytest.mark.parametrize("error", ["", "<ErrorHeader/>", "<ErrorHeader>gone</ErrorHeader>"])
def test_an_error_that_says_nothing_is_a_hard_one(error: str) -> None:
    """Whoever is told of an error and not of which must stop and ask."""
    report = header(with_error(error)).error
    assert report is not None
    assert (report.code, report.severity) == (ErrorCode.UNKNOWN, Severity.HARD_ERROR)


def test_of_several_errors_the_gravest_counts() -> None:
    hard = ERROR.replace("TransientError", "SequenceGap", 1).replace(
        "<Severity>TransientError", "<Severity>HardError"
    )
    warning = ERROR.replace("<Severity>TransientError", "<Severity>Warning")
    for errors in (warning + ERROR + hard, hard + ERROR + warning):
        report = header(with_error(errors)).error
        assert report is not None
        assert report.code is ErrorCode.SEQUENCE_GAP


def test_error_header_in_another_message_is_ignored() -> None:
    document = changed("</ebXMLHeader>", f"{ERROR}</ebXMLHeader>")
    assert header(document) == normal()
