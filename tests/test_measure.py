"""What `tools/measure.py` counts: small sources whose figures are known, and ours."""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools import measure
from tools.calls import Graph
from tools.source import Module, modules

ROOT = Path(__file__).resolve().parents[1]


def source(**texts: str) -> list[Module]:
    """Modules of a package `msh` by their names: `a__b` is b in the package a of it."""
    made = []
    for name, text in texts.items():
        path = Path("msh", *f"{name}.py".split("__"))
        made.append(Module(path, f"msh.{name.replace('__', '.')}", text, ast.parse(text)))
    return made


CALLED = "from .b import *\nfrom . import b\nfrom .b import C, D, made, helper\n"
DEFINED = """
class C:
    def run(self):
        self._step()
    def _step(self): ...
    def step(self):
        return 1
    @property
    def value(self) -> "D":
        return D()
    def __call__(self):
        return 2

class D(C):
    def __init__(self):
        self.c = C()
    def step(self):
        return super().step()

def made() -> D:
    return D()

def helper():
    return 1

several: list[D] = []
"""


@pytest.mark.parametrize(
    ("body", "called"),
    [
        ("helper()", ["helper"]),
        ("b.helper()", ["helper"]),
        ("map(helper, [])", ["helper"]),
        ("made().run()", ["C.run", "made"]),
        ("made().step()", ["D.step", "made"]),
        ("made().value.step()", ["C.value", "D.step", "made"]),
        ("D().c.step()", ["C.step", "D.__init__"]),
        ("b.several[0].step()", ["D.step"]),
        ("for one in b.several: one.step()", ["D.step"]),
        ("[one.step() for one in b.several]", ["D.step"]),
        ("c = C()\n    c()", ["C.__call__"]),
        ("x = None or made()\n    x.step()", ["D.step", "made"]),
        ("if x:\n        helper()\n        raise E", []),
        ("try:\n        pass\n    except E:\n        helper()", []),
        ("def inner():\n        helper()\n    inner()", ["f.inner"]),
        ("unknown.helper()", []),
    ],
)
def test_calls_are_found_by_names_and_types(body: str, called: list[str]) -> None:
    graph = Graph(source(a=f"{CALLED}\ndef f(x):\n    {body}\n", b=DEFINED))
    found = sorted(name.split(".", 2)[2] for name in graph.calls("msh.a.f"))
    assert found == called


def test_parameters_have_the_type_of_their_annotation() -> None:
    text = f"{CALLED}\ndef f(x: D | None, *, y: 'type[C]'):\n    x.step(), y().run()\n"
    graph = Graph(source(a=text, b=DEFINED))
    assert graph.calls("msh.a.f") == ["msh.b.D.step", "msh.b.C.run"]


def test_what_is_left_out_is_not_followed() -> None:
    text = (
        "def f():\n    g()\n    h()\ndef g():\n    h()\ndef h():\n    i()\ndef i():\n    return 1\n"
    )
    graph = Graph(source(a=text))
    assert graph.reached(["msh.a.f"]) == ["msh.a.f", "msh.a.g", "msh.a.h", "msh.a.i"]
    assert graph.reached(["msh.a.f"], "msh.a.h".__eq__) == ["msh.a.f", "msh.a.g"]


def test_the_wire_counts_once_and_methods_without_a_body_not_at_all() -> None:
    wire = "def parse():\n    inside()\ndef inside():\n    return 1\n"
    caller = (
        "from msh.wire.b import parse\nclass P:\n    def m(self): ...\n"
        "def f(p: P):\n    parse()\n    p.m()\n"
    )
    graph = Graph(source(a=caller, wire__b=wire))
    assert graph.reached(["msh.a.f"]) == ["msh.a.f", "msh.wire.b.parse"]


def test_circles_of_modules_are_found() -> None:
    made = source(a="from . import b", b="def f():\n    from . import c", c="import msh.a", d="")
    assert measure.circles(measure.imports(made)) == [["msh.a", "msh.b", "msh.c"]]
    assert measure.circles(measure.imports(made[:2])) == []


def test_arrows_up_are_the_fewest_imports_that_close_circles() -> None:
    made = source(
        a__x="from msh.b import y\nfrom msh import c",
        b__y="from msh import c",
        c="from msh.a import x",
    )
    assert measure.arrows_up(made) == ["msh.c → msh.a"]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph(modules(ROOT))


PASSED = {
    "receive": ("msh.protocol.receiver.step", "msh.flows.wake_up.wake_up"),
    "acknowledge": ("msh.flows.sending.signals._job", "msh.store.sending.signals.end_signals"),
    "submit": ("msh.store.sending.submissions.insert_message", "msh.flows.wake_up.wake_up"),
    "send": ("msh.protocol.sender.step", "msh.store.sending.links.OutboundLinks.write"),
    "resume": ("msh.protocol.sender.step", "msh.store.sending.links.OutboundLinks.write"),
    "ordered": ("msh.protocol.flight.conversation.step", "msh.store.engine.run"),
}
"""Functions that a journey cannot do without."""


@pytest.mark.parametrize("name", measure.journeys())
def test_a_journey_is_followed_to_its_end(name: str, graph: Graph) -> None:
    found = measure.functions_of(measure.journeys()[name], graph)
    assert set(PASSED[name]) - set(found) == set()
    assert "msh.store.prepared.execute" in found
    assert len(found) == len(set(found)) > 30
    assert _functions(measure.files_of(found, graph)) == len(found)


def _functions(files: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, files.values()))


def test_names_that_are_not_there_are_refused(graph: Graph) -> None:
    journey = measure.journeys()["submit"]._replace(starts=("msh.sent",))
    with pytest.raises(ValueError, match=r"journeys\.toml names msh\.sent"):
        measure.functions_of(journey, graph)


def test_the_core_is_a_part_of_the_whole() -> None:
    every = modules(ROOT)
    core = [module for module in every if measure.is_core(module)]
    assert 0 < measure.lines_of(core) < measure.lines_of(every)
    assert "msh.protocol.lane" in {module.name for module in core}
    assert not any("statistics" in module.name for module in core)
