"""What `make bench` measures when it is asked, and the page that shows it."""

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import psycopg
import pytest

from benchmarks import capacity, chain, report_page, stage, wire
from benchmarks.acts import LONG, SHORT, is_chosen, names_of
from msh.flows.receiving.dialects import receiver_of
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage
from partners.models import Agreement, Partner, our_identity


def test_every_figure_has_one_name() -> None:
    names = names_of(SHORT + LONG)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("figure", "chosen"),
    [
        ("exchange_1", "exchange_1"),
        ("exchange_1_to_chain", "exchange_1"),
        ("exchange_16_to_chain", "exchange_16"),
        ("exchange_16_to_commits", "exchange_16"),
        ("exchange_16_to_pyas2", "exchange_16_to_pyas2"),
        ("growth_receive_100000", "growth_receive"),
    ],
)
def test_variant_is_measured_with_its_figure(figure: str, chosen: str) -> None:
    names = names_of(SHORT + LONG)
    assert [name for name in names if is_chosen(figure, {name})] == [chosen]


def test_page_has_a_place_for_each_table() -> None:
    text = report_page.PAGE.read_text()
    for name in ("figures", "pictures", "work", "cost", "installations"):
        once = report_page.replaced(text, name, "new")
        assert f":begin -->\nnew\n<!-- {name}:end" in once
        assert report_page.replaced(once, name, "new") == once


def test_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="work:begin"):
        report_page.replaced("<!-- work:end -->", "work", "new")


def test_every_figure_is_in_the_page() -> None:
    shown = {*report_page.TARGETS, *report_page.GAUGES}
    assert shown >= {
        *names_of(SHORT + LONG),
        *("exchange_1_to_chain", "exchange_16_to_chain", "exchange_16_to_commits"),
    }


def test_capacity_is_computed_from_the_page() -> None:
    costs = capacity.measured(report_page.PAGE.read_text())
    assert costs.cpu_ms > 0
    assert costs.lane_ms > 2 * capacity.ROUND_TRIP_MS
    day = capacity.simulate(200, costs)
    assert day == capacity.simulate(200, costs)
    slow = capacity.simulate(200, replace(costs, lane_ms=60_000))
    assert slow.full > day.full
    assert sum(slow.hours) < sum(day.hours)


@pytest.fixture
def servers() -> Iterator[chain.Servers]:
    """Both sides use one database: their tables have different names."""
    name = f"chain_{secrets.token_hex(4)}"
    server = urlsplit(os.environ["DATABASE_URL"])
    with psycopg.connect(server._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield chain.Servers(server._replace(path=f"/{name}").geturl(), os.environ["REDIS_URL"])
        connection.execute(f"DROP DATABASE {name} (FORCE)")


def test_bare_chain_counts_what_arrived_once(servers: chain.Servers) -> None:
    assert chain.run(servers, servers, pairs=2, messages=3, body=b"<Order/>") > 0
    with psycopg.connect(servers.database, autocommit=True) as connection:
        numbers = connection.execute("SELECT pair, number FROM inbound ORDER BY 1, 2").fetchall()
        assert numbers == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
        # The first message of a pair in the place of its second.
        connection.execute(
            "UPDATE inbound SET body = first.body FROM inbound AS first"
            " WHERE (inbound.number, first.number) = (2, 1) AND inbound.pair = first.pair"
        )
    with pytest.raises(RuntimeError, match="6 exchanged"):
        chain.check(servers, servers, 6)


@pytest.mark.django_db
@pytest.mark.parametrize("dialect", ["trp", "ebms2"])
def test_what_is_sent_to_measure_receiving_is_accepted(dialect: str) -> None:
    """By the agreement that the benchmark sets up: what is refused is quick, and no figure."""
    partner = Partner.objects.create(name="load-00", uri="http://load.example/ebxml/")
    parties = {"our_party": "299999", "their_party": "300000"}
    if dialect == "ebms2":
        parties |= dict.fromkeys(("our_party_context", "their_party_context"), "urn:oasis:duns")
    terms = stage._TERMS_OF[dialect]
    Agreement.objects.create(partner=partner, tpa_id="load-00", **parties, **terms)
    uris = (partner.uri, our_identity().uri)
    pair = wire.Pair("load-00", *uris, "300000", "299999", "load-00", "token", dialect)
    for _ in range(2):
        request = pair.next_request()
        head, _, body = request.partition(b"\r\n\r\n")
        (content_type,) = re.findall(rb"(?im)^Content-Type: (.+?)\r?$", head)
        incoming = Incoming(content_type.decode(), body)
        answer = receiver_of(incoming).receive(partner, incoming)
        assert (answer.status, answer.reason) == (204, "")
    assert InboundMessage.objects.count() == 2
