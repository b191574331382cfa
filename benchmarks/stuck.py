"""Partners that keep an MSH waiting: of those that are added, each second one takes every copy and
never answers, and the others are suspended."""

import socket
from types import TracebackType
from typing import Any, Self

from .msh import Msh
from .producer import Producer
from .report import tell

_MESSAGES = 3
"""For each of them."""
_TERMS = {"timeout": 60, "retries": 1_000, "retry_interval": 60}
"""A POST waits for most of a minute, and is made anew after another."""
_SUSPEND = """
UPDATE msh_outboundlink link
SET state = 'suspended', suspended_since = now(), suspended_for = 'operator'
FROM partners_partner partner
WHERE partner.id = link.partner_id AND partner.name LIKE 'stuck-%' AND partner.id % 2 = 0
"""


class Stuck:
    """So many more partners of `msh`, for the time of a `with`."""

    def __init__(self, msh: Msh, count: int) -> None:
        # Nobody accepts: the system opens connections and takes what is sent.
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self._msh = msh
        self._count = count

    def __enter__(self) -> Self:
        self._msh.set_up([self._partner(number) for number in range(self._count)])
        self._msh.execute(_SUSPEND)
        producer = Producer(self._msh, pairs=self._count, messages=_MESSAGES, names="stuck-")
        with producer:
            producer.submit()
        tell(f"{self._msh.folder.name}: {self._count} partners added, suspended or silent")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listener.close()

    def _partner(self, number: int) -> dict[str, Any]:
        name = f"stuck-{number:03d}"
        uri = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{name}/"
        return {
            "name": name,
            "uri": uri,
            "address": uri,
            "agreements": [{"tpa_id": name, "our_party": "1", "their_party": "2", **_TERMS}],
        }
