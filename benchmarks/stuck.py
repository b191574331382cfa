"""Partners that keep an MSH waiting: of those that are added, each second one takes every copy and
never answers, and the others are suspended."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def stuck_partners(msh: Msh, count: int) -> Iterator[None]:
    """So many more partners of `msh`."""
    # Nobody accepts: the system opens connections and takes what is sent.
    with socket.create_server(("127.0.0.1", 0), backlog=1_024) as listener:
        port = listener.getsockname()[1]
        msh.set_up([_partner(port, number) for number in range(count)])
        msh.execute(_SUSPEND)
        with Producer(msh, pairs=count, messages=_MESSAGES, names="stuck-") as producer:
            producer.submit()
        tell(f"{msh.folder.name}: {count} partners added, suspended or silent")
        yield


def _partner(port: int, number: int) -> dict[str, Any]:
    name = f"stuck-{number:03d}"
    uri = f"http://127.0.0.1:{port}/{name}/"
    return {
        "name": name,
        "uri": uri,
        "address": uri,
        "agreements": [{"tpa_id": name, "our_party": "1", "their_party": "2", **_TERMS}],
    }
