"""A CPA 2.0 is written as it is read."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from msh.protocol.ebms.cpa import Channel
from msh.wire.cpa import parties, read
from msh.wire.cpa_writer import compose
from tests.wire.cpas import ENCRYPTED, SIGNED, cpa

ROUGH = 'a <role> & "more"'


@pytest.mark.requirement("EB-200")
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("more", ["", SIGNED, SIGNED + ENCRYPTED])
def test_what_is_written_is_read_again(side: int, more: str) -> None:
    document = cpa(more)
    values = read(document, parties(document)[side])
    again = read(compose(values), values.ours)
    assert again == values
    theirs = read(compose(values), values.theirs)
    assert theirs.ours == values.theirs
    assert [one.is_ours for one in theirs.actions] == [True, False]


@pytest.mark.requirement("EB-200")
def test_whatever_it_says_is_kept() -> None:
    """Also certificates that are only named, mail, signals elsewhere, and no type."""
    document = re.sub(rb"(?s)<ds:X509Data>.*?</ds:X509Data>", b"", cpa(SIGNED))
    values = read(document, parties(document)[0])
    elsewhere = Channel(
        *("never", "perMessage", "never", "", "signalsOnly", "mailto:a@b.example", "")
    )
    silent = replace(elsewhere, ack="always", address="https://c.example/", retries=0)
    ordered = replace(silent, ordered=True, retries=None)
    first, second = values.actions
    changed = replace(
        values,
        start=values.start + timedelta(milliseconds=1),
        actions=(
            replace(first, from_role=ROUGH, service=ROUGH[2:], service_type="", channel=silent),
            replace(first, action="Change", channel=ordered),
            replace(second, channel=elsewhere),
        ),
        overrides={"MessageError": replace(values.signals_out, address="mailto:a@b.example")},
    )
    again = read(compose(changed), changed.ours)
    assert sorted(again.actions, key=str) == sorted(changed.actions, key=str)
    assert replace(again, actions=()) == replace(changed, actions=())
