"""The answer to a link-status enquiry, to bytes and back."""

import json
from typing import Any

import pytest

from msh.flows.receiving.link_status import ASKED_AT_ONCE
from msh.protocol.errors import Unreadable
from msh.protocol.link_status import LinkStatus
from msh.transport.enquiry import ANSWER_LIMIT
from msh.wire import link_status

WHOLE = LinkStatus(41, "m41", 7, 6, "t6", {"m41": True, "ü": False}, withheld=("m41",))


@pytest.mark.parametrize("status", [WHOLE, LinkStatus(None, "")])
def test_round_trip(status: LinkStatus) -> None:
    assert link_status.read(link_status.write(status)) == status


def bent(**changes: Any) -> bytes:
    whole = json.loads(link_status.write(WHOLE))
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            whole[section][key] = value
        else:
            whole[section] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (b"<html>", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b'{"a":' * 10_000, "not JSON"),
        (b"[]", "no object 'accepted'"),
        (bent(known=[]), "no object 'known'"),
        (bent(withheld={}), "`withheld` that is not a list"),
        (bent(withheld=[41]), "`withheld` that is not a list"),
        (bent(accepted__sequence_number=0), "sequence_number that is no"),
        (bent(accepted__sequence_number=1_000_000_000), "sequence_number that is no"),
        (bent(accepted__sequence_number=True), "sequence_number that is no"),
        (bent(sending__next_number="7"), "next_number that is no"),
        (bent(accepted__message_id="x" * 256), "message_id that is not a MessageId"),
        (bent(accepted__message_id=5), "message_id that is not a MessageId"),
        (bent(accepted__message_id="a\0b"), "message_id that is not a MessageId"),
        (bent(sending__in_flight_message_id="\ud800"), "message_id that is not a MessageId"),
        (bent(withheld=["\ud800"]), "`withheld` that is not a list"),
    ],
)
def test_unusable_field_is_refused_by_name(document: bytes, what: str) -> None:
    with pytest.raises(Unreadable, match=what):
        link_status.read(document)


def test_only_true_says_that_a_message_is_there() -> None:
    assert link_status.read(bent(known={"m": "yes"})).known == {"m": False}


def test_an_msh_that_routes_nothing_need_not_say_what_it_withholds() -> None:
    whole = json.loads(link_status.write(WHOLE))
    del whole["withheld"]
    assert link_status.read(json.dumps(whole).encode()).withheld == ()


def test_the_longest_answer_is_taken_by_the_enquiry() -> None:
    ids = [f"{number:03}" + "\N{GRINNING FACE}" * 252 for number in range(ASKED_AT_ONCE)]
    status = LinkStatus(1, ids[0], known=dict.fromkeys(ids, True), withheld=tuple(ids))
    assert len(link_status.write(status)) < ANSWER_LIMIT
