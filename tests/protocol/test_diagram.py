"""The drawings of the pages are those of the tables."""

from pathlib import Path

import pytest

from tools import diagram
from tools.diagram import (
    PAGES,
    ROOT,
    drawn_into,
    flight_diagram,
    main,
    receiver_table,
    sender_diagram,
)

DRAWINGS = PAGES["ARCHITECTURE.md"]


@pytest.mark.requirement("000-101")
@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_the_tables_as_they_are(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert drawn_into(text, PAGES[page]) == text, "run: python -m tools.diagram --write"


def test_only_text_between_markers_is_replaced() -> None:
    text = (
        "before\n<!-- sender:begin -->\nold\n<!-- sender:end -->\nbetween\n"
        "<!-- receiver:begin -->\nold\n<!-- receiver:end -->\nafter\n"
    )
    assert drawn_into(text, DRAWINGS) == (
        f"before\n<!-- sender:begin -->\n{sender_diagram()}\n<!-- sender:end -->\nbetween\n"
        f"<!-- receiver:begin -->\n{receiver_table()}\n<!-- receiver:end -->\nafter\n"
    )


@pytest.mark.parametrize("text", ["", "<!-- sender:begin -->", "<!-- sender:end -->"])
def test_a_missing_marker_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="<!-- sender:begin -->"):
        drawn_into(text, DRAWINGS)


def test_the_diagram_has_an_arrow_for_a_retry_budget_that_is_spent() -> None:
    arrows = [line.strip() for line in sender_diagram().splitlines()]
    assert arrows[1:4] == ["stateDiagram-v2", "[*] --> idle", "idle --> waiting: LanePolled"]
    (spent,) = [arrow for arrow in arrows if arrow.startswith("waiting --> suspended: ")]
    assert "DeadlinePassed" in spent


def test_a_flight_ends_in_one_of_three_ways() -> None:
    arrows = [line.strip() for line in flight_diagram().splitlines()]
    assert arrows[2] == "[*] --> ready"
    assert "failed --> acknowledged: AckReceived" in arrows
    assert not [arrow for arrow in arrows if arrow.startswith(("acknowledged", "cancelled"))]


def test_the_table_has_a_row_for_every_position() -> None:
    rows = receiver_table().splitlines()
    assert rows[2] == (
        "| next(L), or 1 without L | accept | Ack again, count, discard | TransientError"
        " | MessageIdReused |"
    )
    assert len(rows) == 2 + 6


def test_the_command_prints_the_drawings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{sender_diagram()}\n\n{receiver_table()}\n\n{flight_diagram()}\n")


def test_the_command_writes_them_into_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "ARCHITECTURE.md"
    page.write_text(
        "<!-- sender:begin -->\n<!-- sender:end -->\n"
        "<!-- receiver:begin -->\n<!-- receiver:end -->\n"
    )
    monkeypatch.setattr(diagram, "ROOT", tmp_path)
    monkeypatch.setattr(diagram, "PAGES", {page.name: DRAWINGS})
    assert main(["--write"]) == 0
    assert sender_diagram() in page.read_text()


def test_the_command_refuses_other_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--draw"]) == 2
    assert "usage" in capsys.readouterr().err
