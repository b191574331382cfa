"""The metrics of /metrics: what the collector gives for a database with one of everything."""

import re
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from django.conf import settings
from prometheus_client.core import Metric

from msh import health, metrics
from msh.protocol.attempt import AttemptOutcome
from msh.store import server
from msh.store.operations import monitoring
from tools.site.markdown import table

_HEAD = """\
# Metrics

What `/metrics` has. Who may read it, what to alert on, and the files for Prometheus and Grafana:
[monitoring](../monitoring.md). Every value is a gauge that is read from the tables.
"""


def page() -> str:
    rows = [
        [f"`{family.name}`", family.type, ", ".join(_labels(family)), family.documentation]
        for family in _families()
    ]
    return f"{_HEAD}\n{table(['metric', 'type', 'labels and their values', 'meaning'], rows)}"


def _families() -> Iterator[Metric]:
    one = monitoring.Waiting(number=1, oldest=1.0)
    found = monitoring.Figures(
        links=[],
        suspended=one,
        queued=one,
        undelivered=one,
        numbers=[
            monitoring.Counted(label, 1)
            for label in re.findall(r"SELECT '(\w+)'", monitoring._NUMBERS.sql)
        ],
        deliveries=[],
        incidents=[],
        attempts=[monitoring.Attempts(AttemptOutcome.TRANSMITTED, 0, 1, 0.01)],
        minute=monitoring.Minute(1, 1, 0, 0),
        partners=[monitoring.PartnerState("acme", suspended=False, queued=0)],
        database_bytes=1,
        snapshot=server.SnapshotHolder("a session", server.SNAPSHOT_OLD),
        dead_rows=[monitoring.Counted("msh_outboundmessage", 1)],
    )
    with (
        patch.object(health, "signs_of_life", lambda: {"beat": 0.0, "worker": 0.0}),
        patch.object(monitoring, "figures", lambda partners: found),
        patch.object(settings, "MSH_DISK_PATH", "/"),
    ):
        yield from metrics._Collector().collect()


def _labels(family: Metric) -> list[str]:
    values: dict[str, list[Any]] = {}
    for sample in family.samples:
        for name, value in sample.labels.items():
            if value not in values.setdefault(name, []):
                values[name].append(value)
    return [f"`{name}`: {', '.join(map(str, of))}" for name, of in values.items()]
