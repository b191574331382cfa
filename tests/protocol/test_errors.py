"""An error names the cure."""

from msh.protocol.errors import RefusedTooOften


def test_limited_partner_gets_retry_after() -> None:
    refused = RefusedTooOften(60)

    assert refused.wait == 60
    assert "correct them, then send this one again" in str(refused)
