"""Mutants of the decisions in msh/protocol: cosmic-ray's, and one of ours."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePath

from .source import offset_of
from .trees import ROOT

_OPPOSITES = (
    *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt"),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
)
_ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_Sub", "Div_Mul", "FloorDiv_Mul", "Mod_Add")
OPERATORS = (
    *(f"ReplaceComparisonOperator_{one}" for one in _OPPOSITES),
    *(f"ReplaceBinaryOperator_{one}" for one in _ARITHMETIC),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "AddNot", "ReplaceUnaryOperator_Delete_Not"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer", "ZeroIterationForLoop"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer"),
)
"""One replacement for each operator of Python: with all of cosmic-ray's, `a < b` alone has seven,
and what catches one of them catches most of the others."""


def mutations(source: str) -> Iterator[str]:
    """Each text of the file with one change. It need not run."""
    # Only `make mutants` installs it.
    from cosmic_ray.ast import ast_nodes, get_ast  # noqa: PLC0415
    from cosmic_ray.mutating import mutate_code  # noqa: PLC0415
    from cosmic_ray.plugins import get_operator  # noqa: PLC0415

    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
        for occurrence in range(count):
            yield mutate_code(source, operator, occurrence)
    yield from without_a_keyword(source)


def without_a_keyword(source: str) -> Iterator[str]:
    """Leave out one keyword of a call of `replace`: a step writes one fact less."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "replace":
            continue
        parts: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        for before, part in pairwise(parts):
            if isinstance(part, ast.keyword):
                _, begin = offset_of(source, before)
                _, end = offset_of(source, part)
                yield source[:begin] + source[end:]


def tests_of(file: str) -> str:
    """All tests of the protocol; first those that have a word of the file in their names, and
    the cells of all tables."""
    parts = PurePath(file).with_suffix("").parts[2:]
    words = ["tables", *(part for part in parts if part != "__init__")]
    tests = sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "tests/protocol").rglob("test_*.py")
    )
    return " ".join(sorted(tests, key=lambda test: -sum(word in test for word in words)))
