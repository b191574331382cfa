"""`python -m benchmarks.polls`: how long one poll for work takes at least, with few partners and
with many that are idle, and with a million rows of one of them. Written to var/bench-polls.json.

A poll here finds and locks what is to be done; nothing is changed or sent.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import django
from rich.console import Console
from rich.table import Table

from msh.standalone.embedded import EmbeddedServers

ROOT = Path(__file__).resolve().parent.parent
ACTIVE = 10
WARM_UP = 10  # statements are planned in these, and then never again
ROUNDS = 50

_PARTNERS = """
    INSERT INTO partners_partner ({columns})
    SELECT {values} FROM partners_partner first, generate_series(%s::int, %s::int) n
    WHERE first.id = (SELECT min(id) FROM partners_partner)
"""
_LINKS = """
    INSERT INTO {0} (partner_id{1})
    SELECT id{2} FROM partners_partner WHERE id NOT IN (SELECT partner_id FROM {0})
"""
_BEST_EFFORT = """
    INSERT INTO msh_outboundmessage
        (link_id, agreement_id, message_id, semantics, state, conversation_id, service_interface,
         action, ref_to_message_id, submitted_at, content_digest, size, boundary)
    SELECT link.id, agreement.id, %s || n, %s, 'queued', 'c' || n, 'Orders', 'New', '', now(),
           '\\x00', 2048, 'boundary'
    FROM msh_outboundlink link
    JOIN partners_agreement agreement ON agreement.partner_id = link.partner_id
    CROSS JOIN generate_series(1, %s::int) n
    WHERE link.partner_id = %s
"""
_SIGNALS = """
    INSERT INTO msh_signal
        (link_id, kind, ref_to_message_id, tpa_id, conversation_id, first_at, due, expires_at,
         inbound_id)
    SELECT id, 'Acknowledgement', %s || n, 'tpa', 'c', now(), now(), now() + interval '1 day', n
    FROM msh_inboundlink CROSS JOIN generate_series(1, %s::int) n WHERE partner_id = %s
"""


def main() -> int:
    arguments = _arguments()
    folder = ROOT / "var" / "bench-polls"
    shutil.rmtree(folder, ignore_errors=True)
    with EmbeddedServers(folder, fsync=False) as servers:
        _begin(servers.settings)
        results = _measure(arguments, Console())
    shutil.rmtree(folder)  # kept where a run failed
    (ROOT / "var" / "bench-polls.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partners", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    return parser.parse_args()


def _begin(servers: Mapping[str, str]) -> None:
    """An empty MSH in this process."""
    os.environ.update(servers)
    os.environ.update({"DJANGO_SETTINGS_MODULE": "msh.settings", "SECRET_KEY": "bench" * 8})
    os.environ.setdefault("MSH_URI", "http://bench.example/ebxml/")
    os.environ["LOG_LEVEL"] = "WARNING"
    django.setup()
    from django.core.management import call_command  # noqa: PLC0415  settings first

    call_command("migrate", verbosity=0, skip_checks=True)
    from msh.store import plans  # noqa: PLC0415

    plans.plan_for_hot_path()  # as the worker's threads do
    _run("SET session_replication_role = replica")  # foreign keys are not checked row by row


def _measure(arguments: argparse.Namespace, console: Console) -> dict[str, float]:
    """Milliseconds of the fastest poll, by what there is: other load makes none faster."""
    results: dict[str, float] = {}
    table = Table("There is", "a poll, ms", "what is to be sent on, ms")

    def note(what: str) -> None:
        _run("ANALYZE")
        results[what] = poll = _fastest(_poll)
        results[f"{what}: sent on"] = forwards = _fastest(_poll_forwards)
        table.add_row(what, f"{poll:.2f}", f"{forwards:.2f}")
        console.print(f"{what}: {poll:.2f} ms, {forwards:.2f} ms")

    active = _active_partners()
    note(f"{ACTIVE} partners, all active")
    _add_idle(arguments.partners - ACTIVE)
    note(f"{arguments.partners} partners, {ACTIVE} active")
    _run(_BEST_EFFORT, "flood-", "BestEffort", arguments.rows, active[0])
    note(f"and {arguments.rows} BestEffort messages queued for one")
    _run(_BEST_EFFORT, "queue-", "OnceAndOnlyOnce", arguments.rows, active[1])
    note(f"and {arguments.rows} reliable messages queued for another")
    _run(_SIGNALS, "flood-", arguments.rows, active[2])
    note(f"and {arguments.rows} Acknowledgements pending to a third")
    console.print(table)
    return results


def _active_partners() -> list[int]:
    """Each has a message of both kinds queued, and an Acknowledgement pending."""
    from msh.models import InboundLink, OutboundLink  # noqa: PLC0415  settings first
    from partners.models import Agreement, Partner  # noqa: PLC0415

    keys = []
    for number in range(ACTIVE):
        partner = Partner.objects.create(name=f"p{number}", uri=f"http://p{number}.example/")
        Agreement.objects.create(
            partner=partner,
            tpa_id="tpa",
            our_party="1",
            their_party="2",
            timeout=60,
            retries=3,
            retry_interval=60,
        )
        OutboundLink.objects.create(partner=partner)
        InboundLink.objects.create(partner=partner)
        _run(_BEST_EFFORT, "best-", "BestEffort", 1, partner.pk)
        _run(_BEST_EFFORT, "reliable-", "OnceAndOnlyOnce", 1, partner.pk)
        _run(_SIGNALS, "ack-", 1, partner.pk)
        keys.append(partner.pk)
    return keys


def _add_idle(count: int) -> None:
    from partners.models import Partner  # noqa: PLC0415  settings first

    made = {"name": "'idle-' || n", "uri": "'http://idle-' || n || '/'"}
    made["uri_normalised"] = made["uri"]
    fields = Partner._meta.fields  # noqa: SLF001  Django's own name of it
    columns = [str(field.column) for field in fields if field.column != "id"]
    values = [made.get(column, f"first.{column}") for column in columns]
    _run(_PARTNERS.format(columns=", ".join(columns), values=", ".join(values)), 1, count)
    _run(_LINKS.format("msh_outboundlink", "", ""))
    _run(_LINKS.format("msh_inboundlink", ", last_message_id", ", ''"))


def _poll() -> None:
    from msh.store.sending import polling  # noqa: PLC0415  settings first

    polling.lock_work((), polling.Slots(4, 256))


def _poll_forwards() -> None:
    from msh.store.receiving.forwarding import find_due  # noqa: PLC0415  settings first

    find_due(50)


def _fastest(poll: Callable[[], Any]) -> float:
    from django.db import transaction  # noqa: PLC0415  settings first

    times = []
    for _ in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        with transaction.atomic():
            poll()
        times.append((time.perf_counter() - began) * 1000)
    return min(times[WARM_UP:])


def _run(statement: str, *parameters: int | str) -> None:
    from django.db import connection  # noqa: PLC0415  settings first

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)


if __name__ == "__main__":
    sys.exit(main())
