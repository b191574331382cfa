"""The header `traceparent` (W3C Trace Context), and ids that follow from a MessageId."""

import pytest

from msh.tracing.context import Context, copy_of, read, root_of, trace_of, write

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f" 00-{TRACE}-{SPAN}-03 ", True),
        (f"01-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_header_is_read(header: str, sampled: bool) -> None:
    assert read(header) == Context(int(TRACE, 16), int(SPAN, 16), sampled)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01," * 2,
    ],
)
def test_what_is_no_header_is_no_trace(header: str) -> None:
    assert read(header) is None


def test_header_is_written_as_it_is_read() -> None:
    for sampled in (True, False):
        context = Context(trace_of("id"), root_of("id"), sampled)
        assert read(write(context)) == context


def test_ids_follow_from_the_message_id() -> None:
    """Of today's version and of all later ones: half of a trace may be made by either."""
    assert f"{trace_of('20261123-1@msh.example'):032x}" == "0da6aea64e4a1fdcd8aa804944949f03"
    assert trace_of("one") != trace_of("two")
    assert len({root_of("one"), root_of("two"), copy_of("one", 1), copy_of("one", 2)}) == 4
