"""Two peers that talk to each other. What a peer can be told to do is used, and so proven, by the
tests of the product; this is what it says to the people who read a test that has failed."""

import time

import pytest

from . import Peer, normal


def test_waiting_fails_with_what_came() -> None:
    draft = normal()
    with Peer() as peer, Peer(msh=peer.address, tpa_id="tpa-1") as other:
        other.send(draft)
        began = time.monotonic()
        with pytest.raises(AssertionError, match=f"Normal {draft.message_id} number=1"):
            peer.received.wait_for_acknowledgement(of=draft, timeout=0.1)
    assert time.monotonic() - began >= 0.1
