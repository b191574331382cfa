"""The registry of dialects."""

import pytest

from msh.protocol.message import Payload
from msh.wire import compose_parts, content_type
from msh.wire.dialect import TRP, dialect_named, dialect_of


@pytest.mark.parametrize("came", ["application/json", "", 'multipart/related; boundary="x"'])
def test_what_no_dialect_knows_is_left_to_the_draft(came: str) -> None:
    """It says what is wrong, without an entity."""
    dialect = dialect_of(came, b"")

    assert dialect is TRP
    assert dialect.refusal(415, "no message") is None


def test_the_draft_composes_as_before() -> None:
    dialect, payloads = dialect_named("trp"), [Payload(b"<a/>", content_id="a@b")]

    assert dialect.content_type("msh-1") == content_type("msh-1")
    assert dialect.compose_parts(payloads, "msh-1") == compose_parts(payloads, "msh-1")
    assert dialect.headers == ()


def test_a_dialect_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        dialect_named("ebms3")
