"""/metrics: what waits and what stands still, from the tables, for those who may ask."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from django.db import connection
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from msh import metrics
from msh.admin.dashboard.figures import figures
from msh.models import Attempt, OutboundLink, OutboundMessage
from msh.store.incidents import note_retention_too_short
from tests.admin.many import standing_deliveries, suspended_partners
from tests.flows.flying import make_sky, sky_of_five
from tests.flows.world import World, make_world
from tests.keys import new_key, pem_of

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-prometheus"


@pytest.fixture(autouse=True)
def _allowed(settings: Any) -> Iterator[None]:
    settings.MSH_METRICS_TOKEN = TOKEN
    metrics.forget()
    yield
    metrics.forget()


def scraped(**headers: str) -> tuple[int, str]:
    response = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"} | headers)
    return response.status_code, response.content.decode()


def samples() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Values by name and labels."""
    status, text = scraped()
    assert status == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(name: str, **labels: str) -> float:
    return samples()[name, tuple(sorted(labels.items()))]


@pytest.fixture
def world() -> World:
    return make_world()


def test_nobody_may_ask_unless_a_network_or_a_token_is_set(settings: Any) -> None:
    settings.MSH_METRICS_TOKEN = ""
    assert scraped()[0] == 404
    settings.MSH_METRICS_NETWORKS = "192.0.2.0/24"
    assert scraped()[0] == 403
    settings.MSH_METRICS_NETWORKS = "192.0.2.0/24 127.0.0.0/8"
    assert scraped()[0] == 200


@pytest.mark.parametrize("sent", ["", "Bearer another-token-of-that-kind", f"Basic {TOKEN}"])
def test_wrong_token_is_refused(sent: str) -> None:
    assert scraped(Authorization=sent)[0] == 403


@pytest.mark.parametrize("path", ["/metrics", "/health/live", "/health/ready"])
def test_probes_may_name_any_host(path: str) -> None:
    """Kubernetes and Prometheus ask by the address of the pod."""
    headers = {"Host": "10.1.2.3:8000", "Authorization": f"Bearer {TOKEN}"}
    assert Client().get(path, headers=headers).status_code == 200
    assert Client().get("/admin/", headers=headers).status_code == 400


def test_messages_that_wait_have_numbers_and_ages(world: World) -> None:
    world.submit()
    world.submit()
    OutboundMessage.objects.update(submitted_at=timezone.now() - timedelta(minutes=10))
    assert value("msh_outbound_messages", state="queued") == 2
    assert value("msh_oldest_seconds", what="queued") == pytest.approx(600, abs=60)
    assert value("msh_outbound_messages", state="in_flight") == 0
    assert value("msh_oldest_seconds", what="undelivered") == 0


def test_metrics_and_dashboard_show_the_same_numbers(world: World) -> None:
    """Each has statements of its own: those of the metrics end after 100,000 rows."""
    world.submit()
    sky_of_five()
    suspended_partners(2, queued=3)
    for state in ("blocked", "parked", "in_doubt"):
        standing_deliveries(state, 1)

    shown = {figure.name: figure.value for figure in figures()}

    found = samples()
    incidents = [number for (name, _), number in found.items() if name == "msh_incidents_open"]
    assert shown == {
        "Suspended partners": found["msh_links", (("state", "suspended"),)],
        "Open incidents": sum(incidents),
        # The dashboard does not count those of suspended partners.
        "In flight": found["msh_outbound_messages", (("state", "in_flight"),)] - 2,
        "Queued": found["msh_outbound_messages", (("state", "queued"),)],
        "Held": found["msh_outbound_messages", (("state", "held"),)],
        "Undelivered": found["msh_inbound_messages", (("state", "undelivered"),)],
        "In doubt": found["msh_deliveries", (("state", "in_doubt"),)],
        "Parked": found["msh_deliveries", (("state", "parked"),)],
        "Blocked": found["msh_deliveries", (("state", "blocked"),)],
    }
    assert all(shown.values())


def test_states_of_links_are_complete(world: World) -> None:
    world.submit()
    since = timezone.now() - timedelta(hours=1)
    OutboundLink.objects.update(state="suspended", suspended_since=since)
    found = samples()
    assert found["msh_links", (("state", "suspended"),)] == 1
    assert {labels for name, labels in found if name == "msh_links"} == {
        (("state", state),) for state in ("idle", "waiting", "transient", "suspended")
    }
    oldest = found["msh_oldest_seconds", (("what", "suspended"),)]
    assert oldest == pytest.approx(3600, abs=60)


def test_only_chosen_partners_have_a_label(world: World, settings: Any) -> None:
    name = world.there.name
    assert name not in scraped()[1]
    settings.MSH_METRICS_PARTNERS = [name, "no such partner"]
    metrics.forget()
    world.submit()
    found = samples()
    assert found["msh_partner_queued", (("partner", name),)] == 1
    assert found["msh_partner_suspended", (("partner", name),)] == 0
    assert "no such partner" not in str(found.keys())


def test_open_incidents_are_counted_by_kind(world: World) -> None:
    note_retention_too_short({world.there.pk: "too short"})
    assert value("msh_incidents_open", kind="retention_too_short") == 1
    note_retention_too_short({})
    metrics.forget()
    assert value("msh_incidents_open", kind="retention_too_short") == 0


def test_attempts_of_the_last_minute_are_a_histogram(world: World) -> None:
    message = world.submit()
    now = timezone.now()
    for number, seconds in enumerate((0.02, 0.3, 90), 1):
        begun = now - timedelta(seconds=seconds)
        outcome = "transmitted" if number < 3 else "failed"
        Attempt.objects.create(
            message=message,
            number=number,
            claimed_at=begun,
            ended_at=now,
            outcome=outcome,
            status=200,
        )
    found = samples()
    assert found["msh_attempt_seconds_bucket", (("le", "0.05"),)] == 1
    assert found["msh_attempt_seconds_bucket", (("le", "0.5"),)] == 2
    assert found["msh_attempt_seconds_bucket", (("le", "+Inf"),)] == 3
    assert found["msh_attempts", (("outcome", "transmitted"),)] == 2


def test_values_are_read_once_in_some_seconds(world: World) -> None:
    assert value("msh_outbound_messages", state="queued") == 0
    world.submit()
    assert value("msh_outbound_messages", state="queued") == 0
    metrics.forget()
    assert value("msh_outbound_messages", state="queued") == 1


def test_number_of_series_does_not_grow_with_partners(world: World) -> None:
    before = samples().keys()
    make_world()
    metrics.forget()
    assert samples().keys() == before


CERTIFICATES = "msh_certificate_ends_timestamp_seconds"


def certificates_shown() -> dict[tuple[str, str, str], float]:
    """When they end, by use, whose and fingerprint."""
    metrics.forget()
    return {
        (of["use"], of["whose"], of["fingerprint"]): end
        for (name, labels), end in samples().items()
        if name == CERTIFICATES and (of := dict(labels))
    }


@pytest.mark.requirement("EB-172")
def test_the_end_of_the_last_certificate_of_an_agreement_is_a_time() -> None:
    """As for incidents: one that has its successor is no cause to be woken."""
    assert certificates_shown() == {}
    agreement = make_sky().agreement
    before, last, ends = (new_key("them", -20, days) for days in (3, 400, 50))
    agreement.certificate = f"{pem_of(before)}\n{pem_of(last)}"
    agreement.encryption_certificate = pem_of(ends)
    agreement.save()
    name = agreement.partner.name
    assert certificates_shown() == {
        (use, name, key.certificate.fingerprint(SHA256()).hex()): pytest.approx(
            key.certificate.not_valid_after_utc.timestamp()
        )
        for use, key in (("signatures", last), ("encryption", ends))
    }


def test_of_many_certificates_those_that_end_first_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MOST_CERTIFICATES", 2)
    names = {}
    for days in (400, 50, -3):
        agreement = make_sky().agreement
        agreement.certificate = pem_of(new_key("them", -20, days))
        agreement.save()
        names[days] = agreement.partner.name
    assert [whose for _, whose, _ in certificates_shown()] == [names[-3], names[50]]


def test_certificates_are_read_less_often_than_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    agreement = make_sky().agreement
    agreement.certificate = pem_of(new_key("them", -20, 400))
    agreement.save()
    assert len(certificates_shown()) == 1
    agreement.certificate = ""
    agreement.save()
    monkeypatch.setattr(metrics, "CACHED_FOR", 0.0)
    assert CERTIFICATES in {name for name, _ in samples()}
    monkeypatch.setattr(metrics, "CERTIFICATES_FOR", 0.0)
    assert CERTIFICATES not in {name for name, _ in samples()}


@pytest.mark.parametrize(
    "file",
    [
        "docs/monitoring.md",
        "docker/monitoring/alerts.yml",
        "docker/monitoring/alerts.test.yml",
        "docker/monitoring/grafana.json",
    ],
)
def test_documents_name_metrics_that_exist(file: str) -> None:
    source = Path(metrics.__file__).read_text()
    known = set(re.findall(r'"(msh_[a-z_]+)"', source)) - {"msh_attempt_seconds"}
    known |= {"msh_attempt_seconds_bucket"}
    named = set(re.findall(r"\bmsh_[a-z_]+", (ROOT / file).read_text()))
    assert named <= known
    if file.endswith((".md", ".json")):
        assert known - named <= {"msh_info", "msh_database_up", "msh_redis_up"} | {
            *("msh_disk_watermark_bytes", "msh_http_refused_total")
        }


@pytest.mark.django_db(transaction=True)
def test_database_that_is_down_is_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "PORT", 1)
    found = samples()
    assert found["msh_database_up", ()] == 0
    assert found["msh_redis_up", ()] == 1
    assert ("msh_links", (("state", "idle"),)) not in found
