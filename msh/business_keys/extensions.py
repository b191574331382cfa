"""Keys are indexed by the clock, and `manage.py trace` finds messages by a business key, too."""

from collections.abc import Mapping, Sequence
from typing import Any

from msh.flows.operations import sweeps
from msh.flows.operations.inspection.trace import found_by_value

from .flows.by_key import messages_with_key
from .flows.index_keys import index_keys

sweeps.for_business_keys.register(index_keys)


@found_by_value.register
def rows_with_key(value: str) -> Sequence[Mapping[str, Any]]:
    return [one.as_document() for one in messages_with_key(value)]
