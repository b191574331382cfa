"""/metrics for Prometheus: what waits, what stands still, what happened in the last minute.

Values come from the tables, so each web process of each machine gives the same: they are read once
in CACHED_FOR seconds by each process, certificates, which end by the day, once in CERTIFICATES_FOR.
No label grows with the number of partners.
"""

import hmac
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
)

from msh import health
from msh.flows.operations.certificates import last_certificates
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.protocol.lane import LaneState
from msh.store import capacity
from msh.store.operations import monitoring
from msh.web import refusals
from partners.models.networks import is_in, networks_of

CACHED_FOR, CERTIFICATES_FOR = 5.0, 600.0  # seconds
MOST_PARTNERS = 20
MOST_CERTIFICATES = 20
_DELIVERIES = (
    DeliveryState.PROCESSING,
    DeliveryState.FAILED,
    DeliveryState.BLOCKED,
    DeliveryState.PARKED,
    DeliveryState.IN_DOUBT,
)
_OUTBOUND = ("queued", "in_flight", "held")

_lock = Lock()
_read_at = float("-inf")
_page = b""
_certificates_read_at = float("-inf")
_certificates: Mapping[tuple[str, ...], float] = {}


def page(request: HttpRequest) -> HttpResponse:
    """404 unless somebody may ask at all, so that a new MSH shows nothing."""
    if not (settings.MSH_METRICS_TOKEN or settings.MSH_METRICS_NETWORKS):
        text = "Set MSH_METRICS_TOKEN or MSH_METRICS_NETWORKS.\n"
        return HttpResponse(text, status=404, content_type="text/plain")
    if not _may_ask(request):
        text = "The token or the network is not one of MSH_METRICS_TOKEN, MSH_METRICS_NETWORKS.\n"
        return HttpResponse(text, status=403, content_type="text/plain")
    return HttpResponse(_current(), content_type="text/plain; version=0.0.4; charset=utf-8")


def forget() -> None:
    """Let the next page be read anew."""
    global _read_at, _certificates_read_at
    _read_at = _certificates_read_at = float("-inf")


def _may_ask(request: HttpRequest) -> bool:
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    token = settings.MSH_METRICS_TOKEN
    if token and scheme.lower() == "bearer" and hmac.compare_digest(sent.encode(), token.encode()):
        return True
    address = request.META.get("REMOTE_ADDR", "")
    return is_in(address, networks_of(settings.MSH_METRICS_NETWORKS))


def _current() -> bytes:
    global _read_at, _page
    with _lock:
        if time.monotonic() - _read_at > CACHED_FOR:
            _page = _written()
            _read_at = time.monotonic()
        return _page


def _written() -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    return generate_latest(registry)


class _Collector:
    """The collector whose metrics prometheus_client writes in its text format."""

    def collect(self) -> Iterator[Any]:
        yield _gauge("msh_info", "Always 1.", {health.msh_version(): 1}, label="version")
        yield from _processes()
        yield from _disk()
        yield _refused()
        try:
            found = monitoring.figures(settings.MSH_METRICS_PARTNERS[:MOST_PARTNERS])
            ends = _ends_of_certificates()
        except DatabaseError:
            yield _gauge("msh_database_up", "Whether PostgreSQL answers.", 0)
            return
        yield _gauge("msh_database_up", "Whether PostgreSQL answers.", 1)
        yield from _waiting(found)
        yield from _last_minute(found)
        yield from _chosen(found)
        yield _certificate_ends(ends)


def _processes() -> Iterator[GaugeMetricFamily]:
    ages = health.signs_of_life()
    yield _gauge("msh_redis_up", "Whether Redis answers.", int(ages is not None))
    if ages is not None:
        said = "Seconds since beat and any worker last did something; a day at most."
        yield _gauge("msh_process_idle_seconds", said, ages, label="process")


def _disk() -> Iterator[GaugeMetricFamily]:
    free = capacity.free_disk()
    if free is None:
        return
    yield _gauge("msh_disk_free_bytes", "Free on the disk of MSH_DISK_PATH.", free)
    said = "MSH_DISK_WATERMARK: with less, messages of partners are postponed."
    yield _gauge("msh_disk_watermark_bytes", said, settings.MSH_DISK_WATERMARK)


def _waiting(found: monitoring.Figures) -> Iterator[GaugeMetricFamily]:
    links = _complete(found.links, LaneState)
    yield _gauge("msh_links", "Links to partners.", links, label="state")
    numbers = {counted.label: counted.number for counted in found.numbers}
    outbound = {"queued": found.queued.number} | {name: numbers[name] for name in _OUTBOUND[1:]}
    yield _gauge(
        "msh_outbound_messages", "Messages to partners that have not ended.", outbound, "state"
    )
    inbound = {"undelivered": found.undelivered.number, "held": numbers["held_in"]}
    said = "Messages from partners that no application has yet."
    yield _gauge("msh_inbound_messages", said, inbound, label="state")
    oldest = {
        "queued": found.queued.oldest,
        "undelivered": found.undelivered.oldest,
        "suspended": found.suspended.oldest,
    }
    said = "Age of the oldest that is queued, undelivered, or suspended; 0: there is none."
    yield _gauge("msh_oldest_seconds", said, oldest, label="what")
    deliveries = _complete(found.deliveries, _DELIVERIES)
    yield _gauge("msh_deliveries", "Deliveries that have not ended.", deliveries, label="state")
    incidents = _complete(found.incidents, IncidentKind)
    yield _gauge("msh_incidents_open", "Open incidents.", incidents, label="kind")
    for name, key, said in (
        ("msh_signals_pending", "signals", "Acknowledgements and Errors that are to be sent."),
        ("msh_notices_unsent", "notices", "Notifications of operators that are to be sent."),
        ("msh_conversations_stopped", "conversations", "Conversations to partners that stopped."),
    ):
        yield _gauge(name, said, numbers[key])
    yield _gauge("msh_database_bytes", "Size of the database.", found.database_bytes)
    said = "Age of the oldest snapshot that another session holds; 0: there is none."
    holder = found.snapshot.name if found.snapshot and found.snapshot.old else ""  # few series
    age = {holder: found.snapshot.seconds if found.snapshot else 0.0}
    yield _gauge("msh_database_snapshot_seconds", said, age, label="holder")
    dead = {counted.label: counted.number for counted in found.dead_rows}
    yield _gauge("msh_database_dead_rows", "Dead rows by table.", dead, label="table")


def _last_minute(
    found: monitoring.Figures,
) -> Iterator[GaugeMetricFamily | GaugeHistogramMetricFamily]:
    by_outcome = dict.fromkeys((outcome.value for outcome in AttemptOutcome), 0)
    for row in found.attempts:
        by_outcome[row.outcome] = by_outcome.get(row.outcome, 0) + row.number
    said = "Attempts that ended in the last minute."
    yield _gauge("msh_attempts", said, by_outcome, label="outcome")
    yield _histogram(found.attempts)
    if found.minute is None:
        return
    traffic = {
        "sent": found.minute.sent,
        "received": found.minute.received,
        "retries": found.minute.retries,
        "duplicates": found.minute.duplicates,
    }
    said = "Messages acknowledged to us and accepted by us, copies, in the last counted minute."
    yield _gauge("msh_traffic", said, traffic, label="what")


def _histogram(attempts: Sequence[monitoring.Attempts]) -> GaugeHistogramMetricFamily:
    buckets, total = [], 0
    for place, bound in enumerate((*monitoring.ATTEMPT_BOUNDS, float("inf"))):
        total += sum(row.number for row in attempts if row.place == place)
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    said = "Durations of the attempts that ended in the last minute."
    family = GaugeHistogramMetricFamily("msh_attempt_seconds", said)
    family.add_metric([], buckets, sum(row.seconds for row in attempts))
    return family


def _chosen(found: monitoring.Figures) -> Iterator[GaugeMetricFamily]:
    if not found.partners:
        return
    queued = {partner.name: partner.queued for partner in found.partners}
    suspended = {partner.name: int(partner.suspended) for partner in found.partners}
    said = "Of the partners of MSH_METRICS_PARTNERS: messages that are queued."
    yield _gauge("msh_partner_queued", said, queued, label="partner")
    said = "Of the same: whether the link to the partner is suspended."
    yield _gauge("msh_partner_suspended", said, suspended, label="partner")


def _ends_of_certificates() -> Mapping[tuple[str, ...], float]:
    """Of those that end first, by the labels."""
    global _certificates_read_at, _certificates
    now = time.monotonic()
    if now - _certificates_read_at > CERTIFICATES_FOR:
        found = {(one.use, one.whose, one.sha256): one.until for one in last_certificates()}
        first = sorted(found, key=found.__getitem__)[:MOST_CERTIFICATES]
        _certificates = {labels: found[labels].timestamp() for labels in first}
        _certificates_read_at = now
    return _certificates


def _certificate_ends(ends: Mapping[tuple[str, ...], float]) -> GaugeMetricFamily:
    said = "When certificates end after which there is no other; those that end first."
    family = GaugeMetricFamily(
        "msh_certificate_ends_timestamp_seconds", said, labels=["use", "whose", "fingerprint"]
    )
    for labels, end in ends.items():
        family.add_metric(labels, end)
    return family


def _complete(counted: Sequence[monitoring.Counted], labels: Iterable[str]) -> dict[str, int]:
    """Add a 0 for each missing series, so that all series exist from the beginning."""
    return {str(label): 0 for label in labels} | {one.label: one.number for one in counted}


def _refused() -> CounterMetricFamily:
    """Return the refusals of the web processes of this machine only, unlike metrics from tables."""
    said = "Refused by the web processes before it was a request; their log says why."
    family = CounterMetricFamily("msh_http_refused_total", said, labels=["code"])
    for code, number in refusals.totals().items():
        family.add_metric([code], number)
    return family


def _gauge(
    name: str, said: str, values: Mapping[str, float] | float, label: str = ""
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, said, labels=[label] if label else [])
    if isinstance(values, Mapping):
        for key, value in values.items():
            family.add_metric([str(key)], value)
    else:
        family.add_metric([], values)
    return family
