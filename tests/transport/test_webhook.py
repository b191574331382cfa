"""What an operator's hook answers, as far as it is told."""

import gzip

import pytest

from msh.transport.webhook import WebhookFailed, post
from tests.peer import Peer, status


def test_an_answer_that_is_compressed_is_told(peer: Peer) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
    peer.script(
        status(200, body=gzip.compress(b"noted"), headers=headers),
        status(404, body=gzip.compress(b"no such hook" + b"." * 5_000_000), headers=headers),
        status(200, body=b"\x0b", headers={"Content-Encoding": "br"}),
    )
    assert post(peer.address, b"{}", "", 10) == "200 OK noted"
    with pytest.raises(WebhookFailed, match=r"404 Not Found no such hook\.+$") as failed:
        post(peer.address, b"{}", "", 10)
    assert len(str(failed.value)) == 300
    assert post(peer.address, b"{}", "", 10) == "200 OK"
    assert {one.headers["Accept-Encoding"] for one in peer.received} == {"identity"}
