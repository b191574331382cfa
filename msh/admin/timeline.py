"""Everything that happened to one message, in one table."""

from typing import Any

from msh.flows.story import Moment, folded, story_of_row
from msh.models import InboundMessage, OutboundMessage

from . import cells
from .tables import Table

HEADERS = ("At", "What", "State", "By", "Detail")


def timeline(message: OutboundMessage | InboundMessage) -> Table:
    """By time. What happened again and again is one row, which says how often."""
    rows = [_row(moment) for moment in folded(story_of_row(message))]
    return Table("Timeline", HEADERS, rows, "Nothing is recorded.")


def _row(moment: Moment) -> tuple[Any, ...]:
    return (
        cells.time_of(moment.at),
        moment.event,
        moment.to_state or cells.DASH,
        moment.actor,
        cells.verbatim(moment.detail),
    )
