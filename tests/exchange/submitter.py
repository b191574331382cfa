"""An application that submits: `python -m tests.exchange.submitter AGREEMENT THREADS COUNT`.

COUNT times in each of THREADS threads: one message, and before it one whose transaction is rolled
back. It says how many were submitted.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import django

django.setup()

from django.db import connections, transaction  # noqa: E402

from msh.flows.sending.submit import submit  # noqa: E402
from msh.protocol.message import Payload  # noqa: E402
from partners.models import Agreement  # noqa: E402


class _Changed(Exception):
    """The application changes its mind."""


def _submit(agreement: Agreement, count: int) -> int:
    for _ in range(count):
        try:
            with transaction.atomic():
                submit(agreement, "Orders", "Discard", [Payload(b"<Order/>")])
                raise _Changed
        except _Changed:
            submit(agreement, "Orders", "New", [Payload(b"<Order/>")])
    connections.close_all()
    return count


def main() -> None:
    key, threads, count = map(int, sys.argv[1:])
    agreement = Agreement.objects.select_related("partner").get(pk=key)
    with ThreadPoolExecutor(threads) as pool:
        counts = pool.map(lambda _: _submit(agreement, count), range(threads))
        sys.stdout.write(f"{sum(counts)}\n")


if __name__ == "__main__":
    main()
