"""How bad a trouble is beside others: by severity, by what waits and by age."""

from datetime import timedelta

from msh.protocol.severity import Severity, weight

HOUR = timedelta(hours=1)


def test_a_step_of_severity_is_as_bad_as_ten_times_the_messages() -> None:
    assert weight(Severity.CRITICAL, 0, HOUR) == weight(Severity.WARNING, 9, HOUR)
    assert weight(Severity.CRITICAL, 0, HOUR) > weight(Severity.WARNING, 8, HOUR)
    assert weight(Severity.CRITICAL, 0, HOUR) < weight(Severity.WARNING, 10, HOUR)


def test_what_waits_longer_is_worse_and_so_is_what_more_messages_wait_for() -> None:
    assert weight(Severity.INFO, 1, 2 * HOUR) > weight(Severity.INFO, 1, HOUR)
    assert weight(Severity.INFO, 2, HOUR) > weight(Severity.INFO, 1, HOUR)


def test_what_begins_later_than_now_by_another_clock_is_as_bad_as_what_begins_now() -> None:
    assert weight(Severity.WARNING, 3, -HOUR) == weight(Severity.WARNING, 3, timedelta(0)) > 0
