"""The events of a message, as a table."""

from msh.flows.operations.inspection.trace import folded, trace_of_row
from msh.models import InboundMessage, OutboundMessage

from . import markup
from .event_text import state_text, story_of
from .pages import Table

TIMELINE_HEADERS = ("Time", "What happened", "State", "By", "Detail")


def timeline_of(message: OutboundMessage | InboundMessage) -> Table:
    """Repeated events are one row, with their count; each attempt is one row."""
    rows = [
        (
            markup.time_of(moment.at),
            sentence,
            state_text(moment.to_state) or markup.DASH,
            moment.actor,
            markup.local_times(detail),
        )
        for moment, sentence, detail in story_of(folded(trace_of_row(message)))
    ]
    return Table("Timeline", TIMELINE_HEADERS, rows, "No events.")
