"""The flows of each dialect for a request: the receiving half of the registry in
`msh/wire/dialect.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msh.wire.dialect import EBMS2, TRP, dialect_of
from partners.models import Partner

from . import ebms2
from .incoming import Answer, Incoming
from .receive import receive, receive_fast_path


@dataclass(frozen=True, slots=True)
class Receiver:
    """All functions attribute a request of a partner to an agreement, act, and return the answer.

    `receive_fast_path` takes the most frequent messages, from a partner that may be a cached one.
    It returns None, with nothing done, for all others: then the caller looks the partner up in the
    database and calls `receive`. `receive_by_mail` takes a mail, where the only possible answer is
    whether it was taken. `receive_from_network` takes a request of one of several partners without
    credential; None if the dialect cannot distinguish them.
    """

    receive_fast_path: Callable[[Partner, Incoming], Answer | None]
    receive: Callable[[Partner, Incoming], Answer]
    receive_by_mail: Callable[[Partner, Incoming], Answer]
    receive_from_network: Callable[[Sequence[Partner], Incoming], Answer] | None = None


_RECEIVERS = {
    TRP.name: Receiver(receive_fast_path, receive, receive),
    EBMS2.name: Receiver(
        ebms2.receive_fast_path,
        ebms2.receive,
        ebms2.receive_by_mail,
        ebms2.receive_from_network,
    ),
}


def receiver_of(incoming: Incoming) -> Receiver:
    return _RECEIVERS[dialect_of(incoming.content_type, incoming.body).name]
