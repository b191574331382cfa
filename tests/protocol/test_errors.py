"""An error names the cure."""

from msh.protocol.errors import RefusedTooOften


def test_a_partner_that_is_refused_too_often_is_told_when_to_come_again() -> None:
    refused = RefusedTooOften(60)

    assert refused.wait == 60
    assert "mend them, then send this again" in str(refused)
