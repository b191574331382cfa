"""What `make bench` measures when it is asked, and the page that shows it."""

import pytest

from benchmarks import report_page
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
