"""Mutants of SQL: a lock less, a condition less, a bound that includes its value or no more.

They are made of the text of the constants: statements here are strings with gaps for what several
of them share, so there is nothing that a parser of SQL could read.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .source import offset_of

TESTS: Mapping[str, str] = tomllib.loads((Path(__file__).parent / "sql.toml").read_text())
"""The files of which mutants are made, and the tests that read what their statements do."""

_HAS_SQL = re.compile(r"\b(SELECT|UPDATE|DELETE FROM|WHERE|AND|FOR NO KEY|SKIP LOCKED)\b")
_CHANGES = (
    (re.compile(r"\s+FOR (NO KEY )?UPDATE( OF [\w{}]+)?( SKIP LOCKED)?"), ""),
    (re.compile(r"\s+SKIP LOCKED\b"), ""),
    (re.compile(r"(?<=\s)<(?=\s)"), "<="),
    (re.compile(r"(?<=\s)<=(?=\s)"), "<"),
    (re.compile(r"(?<=\s)>(?=\s)"), ">="),
    (re.compile(r"(?<=\s)>=(?=\s)"), ">"),
)
_GAP = re.compile(r"\{[^{}]*\}")
_TOKEN = re.compile(r'[(),"]|\b[A-Z]+\b')
_OPENS, _CLOSES = {"(", "CASE"}, {")", "END"}
_ENDS = {
    *("AND", "OR", "WHERE", "GROUP", "ORDER", "LIMIT", "OFFSET", "FOR", "RETURNING", "UNION"),
    *("EXCEPT", "JOIN", "LEFT", "CROSS", "ON", "WHEN", "THEN", "ELSE", "HAVING", "SET", "AS", ","),
}


def mutations(source: str) -> Iterator[str]:
    """Each text of the file with one change in a string that has SQL. It need not be Python."""
    for begin, end in _strings(source):
        for changed in _changes(source[begin:end]):
            yield source[:begin] + changed + source[end:]


def _strings(source: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each string or f-string with SQL. A docstring has none."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr | ast.Constant):
            begin, end = offset_of(source, node)
            if _HAS_SQL.search(source[begin:end]):
                yield begin, end
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _changes(text: str) -> Iterator[str]:
    for pattern, replacement in _CHANGES:
        for found in pattern.finditer(text):
            yield text[: found.start()] + replacement + text[found.end() :]
    for begin, end in conditions(text):
        yield text[:begin] + text[end:]


@dataclass(frozen=True, slots=True)
class _Token:
    word: str
    begin: int
    end: int
    depth: int


def _tokens(text: str) -> list[_Token]:
    """Brackets, commas, quotes and words in capital letters outside of gaps. A bracket that closes
    has the depth outside of it."""
    depth = 0
    found = []
    for one in _TOKEN.finditer(_GAP.sub(lambda gap: "x" * len(gap.group()), text)):
        depth -= one.group() in _CLOSES
        found.append(_Token(one.group(), one.start(), one.end(), depth))
        depth += one.group() in _OPENS
    return found


def conditions(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of what to leave out: `AND condition`, or `condition AND` behind WHERE."""
    tokens = _tokens(text)
    for index, token in enumerate(tokens):
        following = tokens[index + 1 :]
        if token.word == "AND" and not _is_of_between(tokens[:index], token.depth):
            yield token.begin, _end_of_condition(following, token.depth, text).begin
        elif token.word == "WHERE":
            last = _end_of_condition(following, token.depth, text)
            if last.word == "AND":
                yield token.end, last.end


def _end_of_condition(tokens: list[_Token], depth: int, text: str) -> _Token:
    is_between = False
    for token in tokens:
        if token.word == "BETWEEN" and token.depth == depth:
            is_between = True
        elif token.word == "AND" and token.depth == depth and is_between:
            is_between = False
        elif token.depth < depth or token.word == '"' or _is_end(token, depth):
            return token
    return _Token("", len(text), len(text), depth)


def _is_end(token: _Token, depth: int) -> bool:
    return token.depth == depth and token.word in _ENDS


def _is_of_between(before: list[_Token], depth: int) -> bool:
    for token in reversed(before):
        if token.depth < depth or _is_end(token, depth):
            return False
        if token.depth == depth and token.word == "BETWEEN":
            return True
    return False
