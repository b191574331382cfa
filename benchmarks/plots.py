"""`python -m benchmarks.plots`: pictures of var/bench.json for docs/performance.md.

A picture for which nothing was measured is left as it is. Needs the extra `bench`.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .msh import ROOT

FOLDER = ROOT / "docs" / "images"
_SIZE = (7.0, 3.2)  # inches
_DPI = 90
_BLUE, _GREY, _RED = "#2563a8", "#b9c0c8", "#b3382c"
FLOORED = (
    *("receive_1", "receive_16", "exchange_1", "exchange_1_to_chain"),
    *("exchange_16", "exchange_16_to_chain", "exchange_16_to_commits"),
    *("exchange_200", "exchange_16_1mb", "bulk_1", "bulk_2", "submit_1"),
)
LATENCIES = ("receive_1", "receive_16", "exchange_1", "exchange_16", "exchange_200", "submit_1")

Document = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "var" / "bench.json")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    absolute: Document = json.loads(arguments.results.read_text())["absolute"]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        figure, axes = _axes()
        if draw(axes, absolute):
            path = arguments.folder / f"performance-{name}.png"
            figure.savefig(path, dpi=_DPI, metadata={"Software": None})
            sys.stdout.write(f"{path}\n")
    return 0


def _axes() -> tuple[Any, Any]:
    try:
        import matplotlib  # noqa: PLC0415
    except ImportError:
        raise SystemExit("matplotlib is missing: install the extra 'bench'.") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=_SIZE, layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _ratios(axes: Any, absolute: Document) -> bool:
    """Each figure as a share of its floor, with its slowest and fastest round."""
    names = [name for name in FLOORED if name in absolute]
    for place, name in enumerate(names):
        found = absolute[name]
        rounds = zip(found["product"]["rounds"], found["floor"]["rounds"], strict=True)
        ratios = [product / floor for product, floor in rounds]
        axes.barh(place, found["ratio"], color=_BLUE)
        axes.plot([min(ratios), max(ratios)], [place, place], color="black", linewidth=1)
    axes.axvline(1, color=_GREY)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("messages per second, divided by those of the floor")
    return bool(names)


def _latencies(axes: Any, absolute: Document) -> bool:
    names = [name for name in LATENCIES if name in absolute]
    for place, name in enumerate(names):
        median, p99 = (absolute[name][f"latency_{which}_ms"] for which in ("median", "p99"))
        axes.plot([median, p99], [place, place], color=_GREY, zorder=1)
        axes.scatter([median], [place], color=_BLUE, label="p50" if not place else None)
        axes.scatter([p99], [place], color=_RED, label="p99" if not place else None)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds")
    if names:
        axes.legend(frameon=False)
    return bool(names)


def _growth(axes: Any, absolute: Document) -> bool:
    """The speed with so many messages stored, as a share of that with 10,000. Where one number was
    measured, the table says it all."""
    drawn = False
    for name, colour in (("growth_receive", _BLUE), ("growth_exchange", _RED)):
        found = [one for key, one in absolute.items() if key.startswith(name)]
        points = sorted((one["stored"], one["ratio"]) for one in found)
        if len(points) > 1:
            axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=name)
            drawn = True
    axes.set_xscale("log")
    axes.set_ylim(0, 1.2)
    axes.axhline(1, color=_GREY)
    axes.set_xlabel("messages stored")
    axes.set_ylabel("speed, with 10,000 = 1")
    if drawn:
        axes.legend(frameon=False)
    return drawn


def _memory(axes: Any, absolute: Document) -> bool:
    if "memory" not in absolute:
        return False
    axes.plot(*zip(*absolute["memory"]["samples"], strict=True), color=_BLUE)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes of exchange_16")
    axes.set_ylabel("MB, both MSHs")
    return True


PICTURES: dict[str, Callable[[Any, Document], bool]] = {
    "ratios": _ratios,
    "latencies": _latencies,
    "growth": _growth,
    "memory": _memory,
}

if __name__ == "__main__":
    sys.exit(main())
