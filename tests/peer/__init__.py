"""P: a scripted raw peer. Another implementation of the wire, the standard library only.

It knows nothing of `msh`: it writes and reads ebXML messages and HTTP by its own code, so that a
test with it proves what stands on the wire. Everything it sends can be bent, everything it gets is
recorded with its time of arrival (`time.monotonic`, seconds).

    with Peer(msh="http://127.0.0.1:8000/ebxml/", token="what it shows us") as peer:
        ...                              # configure a partner with uri=peer.uri
        first = normal(sequence_number=1)
        assert peer.send(first).status == 204
        peer.received.wait_for_acknowledgement(of=first)
        assert peer.send(first).status == 204            # the same bytes again
        acks = peer.received.wait_for_count(2, Received.is_acknowledgement)

**Sending.** `normal()`, `acknowledgement()` and `error()` make a Draft: every field of the header
is a keyword (`drafts.FIELDS` lists them), with a default that makes a correct message. `OMIT`
leaves an element out, "" makes it empty, `Raw("...")` goes in unescaped. `draft.but(action="X")`
is a changed copy with the same MessageId and time. Whole parts: `header_document=b"..."`,
`payloads=[Payload(...)]`, `content_type=`, `body=b"..."`. A Draft sent twice is the same bytes.
What a Draft leaves open (URIs, parties, TPAId) is filled in by the Peer that sends it.
`peer.send(draft, token=None, path=..., headers=..., chunked=True, ...)` returns the Response with
every byte that followed its head; `peer.send_at_once([...])` sends over as many connections at
one moment; `peer.exchange(b"raw bytes")` is for what is no HTTP at all.

**Receiving.** `peer.received` holds Received requests: `.normals()`, `.acknowledgements(of=)`,
`.errors(of=)`, `.copies_of(message_id)`, and `.wait_for(predicate, timeout)`, which returns what
the predicate returned, or fails with a list of what came. A Received is read lazily:
`.message.sequence_number`, `.message.text("RoutingHeader/SenderURI")`, `.message.payloads`.

**Answering.** Every request gets 204 at once, unless told otherwise:
    peer.script(status(503, retry_after=2), reset(), hang_up(before="head"), silence())
    peer.always(status(204, delay=30.0))
    peer.always(lambda received: status(400) if received.message.action == "X" else status(204))
`peer.release()` ends every silence, `peer.go_down()` refuses connections, `peer.come_up()` listens
again on the same port, `peer.drop_idle()` closes kept connections.

**Acknowledging.** `Peer(acknowledges=True)` or `peer.acknowledges = True` acknowledges every copy
of a reliable message. Else: `peer.acknowledge(received)`, `peer.refuse(received, "TransientError",
min_retry_secs=5)`, or `peer.replies = lambda received: [drafts to send]`.
"""

from .answers import Answer, hang_up, reset, silence, status
from .drafts import Draft, Payload, acknowledgement, error, normal
from .peer import Peer
from .reading import Message
from .recording import Received, Recording
from .sending import Response
from .writing import OMIT, Raw

__all__ = [
    "OMIT",
    "Answer",
    "Draft",
    "Message",
    "Payload",
    "Peer",
    "Raw",
    "Received",
    "Recording",
    "Response",
    "acknowledgement",
    "error",
    "hang_up",
    "normal",
    "reset",
    "silence",
    "status",
]
