"""An error names the cure."""

from msh.protocol.errors import MovedAway, RefusedTooOften


def test_limited_partner_gets_retry_after() -> None:
    refused = RefusedTooOften(60)

    assert refused.wait == 60
    assert "correct them, then send this one again" in str(refused)


def test_who_was_moved_away_is_told_to_send_again() -> None:
    assert str(MovedAway()) == "your link was moved to another MSH: send it again in a moment"
