"""Places in the text of a Python file."""

import ast


def offset_of(source: str, node: ast.expr | ast.keyword) -> tuple[int, int]:
    """The characters at which the node begins and ends."""
    if node.end_lineno is None or node.end_col_offset is None:
        raise AssertionError("ast.parse gives every expression an end")
    lines = source.splitlines(keepends=True)

    def at(line: int, column: int) -> int:
        before = sum(map(len, lines[: line - 1]))
        return before + len(lines[line - 1].encode()[:column].decode())  # ast counts bytes

    return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
