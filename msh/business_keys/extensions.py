"""`manage.py trace` finds messages by a business key, too."""

from collections.abc import Mapping, Sequence
from typing import Any

from msh.flows.operations.inspection.trace import found_by_value

from .flows.by_key import messages_with_key


@found_by_value.register
def rows_with_key(value: str) -> Sequence[Mapping[str, Any]]:
    return [one.as_document() for one in messages_with_key(value)]
