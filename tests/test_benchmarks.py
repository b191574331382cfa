"""What `make bench` measures when it is asked, and the page that shows it."""

from dataclasses import replace

import pytest

from benchmarks import capacity, report_page
from benchmarks.acts import LONG, SHORT, is_chosen, names_of


def test_every_figure_has_one_name() -> None:
    names = names_of(SHORT + LONG)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("figure", "chosen"),
    [
        ("exchange_1", "exchange_1"),
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
    assert shown >= {*names_of(SHORT + LONG), "exchange_16_to_commits"}


def test_capacity_is_computed_from_the_page() -> None:
    costs = capacity.measured(report_page.PAGE.read_text())
    assert costs.cpu_ms > 0
    assert costs.lane_ms > 2 * capacity.ROUND_TRIP_MS
    day = capacity.simulate(200, costs)
    assert day == capacity.simulate(200, costs)
    slow = capacity.simulate(200, replace(costs, lane_ms=60_000))
    assert slow.full > day.full
    assert sum(slow.hours) < sum(day.hours)
