"""What `make demo` and `make audit` have in common: arguments, and an exit status."""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rich.console import Console

Options = TypeVar("Options")


def run_command(
    name: str,
    description: str | None,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    options_of: Callable[[Mapping[str, Any]], Options],
    run: Callable[[Options, Console], int],
) -> int:
    """The exit status. Options that `options_of` refuses with a ValueError are named in a line."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    add_arguments(parser)
    try:
        options = options_of(vars(parser.parse_args()))
    except ValueError as error:
        parser.error(str(error))
    return run(options, Console())
