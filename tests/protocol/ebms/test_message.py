"""Values of OASIS ebMS 2.0: which errors are reported, and in which order things are checked."""

from dataclasses import replace

import pytest

from msh.protocol.ebms.agreement import Agreed, breaches
from msh.protocol.ebms.message import (
    Defect,
    Error,
    ReceivedMessage,
    digest_to_keep,
    errors_to_report,
    highest_severity,
    is_copy,
    is_uri,
    reports_of,
)
from msh.protocol.ebms.vocabulary import SERVICE, ErrorCode, Kind, Severity, Stage
from msh.protocol.message import IDENTITY_BYTES
from tests.wire.ebms2.samples import THEM, US, message


def defect(number: int, stage: Stage = Stage.HEADER, *, waivable: bool = False) -> Defect:
    return Defect(f"EB-{number:03}", stage, Error("Inconsistent", location=str(number)), waivable)


def locations(*defects: Defect, lenient: frozenset[str] = frozenset()) -> list[str]:
    return [error.location for error in errors_to_report(defects, lenient)]


@pytest.mark.requirement("EB-065")
def test_the_first_check_that_fails_decides() -> None:
    stages = [defect(number, stage) for number, stage in enumerate(Stage)]
    assert locations(*reversed(stages)) == ["0"]
    for number in range(3):
        assert locations(*stages[number + 1 :], *stages[number + 1 :]) == [str(number + 1)] * 2
    assert locations() == []


@pytest.mark.requirement("EB-056")
def test_ten_errors_at_most_are_reported() -> None:
    assert locations(*map(defect, range(1, 20))) == [str(number) for number in range(1, 11)]


@pytest.mark.requirement("EB-022", "EB-048")
def test_what_the_agreement_is_lenient_about_is_not_reported() -> None:
    version, part = defect(22, waivable=True), defect(48, Stage.MANIFEST, waivable=True)
    strict = defect(22)
    assert locations(version, part, lenient=frozenset({"EB-022"})) == ["48"]
    assert locations(version, part, lenient=frozenset({"EB-022", "EB-048"})) == []
    assert locations(strict, part, lenient=frozenset({"EB-022"})) == ["22"]


@pytest.mark.requirement("EB-054")
def test_the_highest_severity_is_that_of_the_gravest() -> None:
    warning = Error("Unknown", Severity.WARNING)
    assert highest_severity((warning,)) is Severity.WARNING
    assert highest_severity((warning, Error("Unknown"), warning)) is Severity.ERROR


@pytest.mark.requirement("EB-030", "EB-034")
@pytest.mark.parametrize(
    ("text", "is_one"),
    [("urn:x:1", True), ("http://x", True), ("x", False), (":x", False), ("a:", False)],
)
def test_a_uri_has_a_scheme(text: str, is_one: bool) -> None:
    assert is_uri(text) is is_one


@pytest.mark.requirement("EB-035")
def test_only_the_six_actions_of_the_reserved_service_make_a_signal() -> None:
    for kind in Kind:
        assert Kind.of(SERVICE, kind) is kind
        assert Kind.of("urn:x", kind) is Kind.BUSINESS
    assert Kind.of(SERVICE, "Order") is Kind.BUSINESS
    assert [kind for kind in Kind if not kind.is_signal] == [Kind.BUSINESS]


@pytest.mark.requirement("EB-057")
@pytest.mark.parametrize(
    ("error", "code", "text", "severity"),
    [
        (Error("Inconsistent"), "Inconsistent", "", "HardError"),
        (Error("DeliveryFailure", Severity.WARNING), "DeliveryFailure", "", "Warning"),
        (Error("200"), "Unknown", "200", "HardError"),
        (Error("Inconsistent", code_context="urn:x"), "Unknown", "Inconsistent", "HardError"),
        (Error("SequenceGap"), "Unknown", "SequenceGap", "HardError"),
    ],
)
def test_errors_of_a_partner(error: Error, code: str, text: str, severity: str) -> None:
    (report,) = reports_of((error,))
    assert (report.code, report.code_text, report.severity) == (code, text, severity)


@pytest.mark.requirement("EB-112")
def test_a_damaged_copy_is_compared_by_its_envelope() -> None:
    whole = ReceivedMessage(message(), (), b"e" * IDENTITY_BYTES + b"p" * IDENTITY_BYTES, b"")
    spoilt = Defect("EB-008", Stage.MIME, Error(ErrorCode.MIME_PROBLEM), waivable=False)
    damaged = replace(whole, content_digest=b"e" * IDENTITY_BYTES + b"?", defects=(spoilt,))
    none: frozenset[str] = frozenset()
    assert digest_to_keep(whole, none) == whole.content_digest
    assert digest_to_keep(damaged, none) == b"e" * IDENTITY_BYTES
    assert is_copy(damaged, whole.content_digest, none)
    other = replace(damaged, content_digest=b"o" * len(damaged.content_digest))
    assert not is_copy(other, whole.content_digest, none)


@pytest.mark.requirement("EB-034")
@pytest.mark.parametrize(("agreed", "rules"), [("", []), ("string", []), ("uri", ["EB-034"])])
def test_a_service_has_the_type_that_was_agreed_on(agreed: str, rules: list[str]) -> None:
    ours, theirs = US.party_ids[0], THEM.party_ids[0]
    terms = Agreed("cpa-4711", ours, theirs, service_type=agreed)
    assert [each.rule for each in breaches(message(), terms)] == rules
