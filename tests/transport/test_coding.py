"""What a Content-Encoding is taken off of, without the HTTP around it."""

import gzip

import pytest

from msh.transport.coding import decoded


@pytest.mark.parametrize(("empty_ones", "expected"), [(99, (b"<a/>", True)), (100, (b"", False))])
def test_no_more_members_are_read_than_an_honest_server_sends(
    empty_ones: int, expected: tuple[bytes, bool]
) -> None:
    """A million empty ones have no end: each is followed by all the others."""
    body = gzip.compress(b"") * empty_ones + gzip.compress(b"<a/>")
    assert decoded(body, "gzip", 1000) == expected
