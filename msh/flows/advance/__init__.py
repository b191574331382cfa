"""The only writer of state: whoever changes a message, a lane or a signal calls this."""

from msh.protocol.lane import OPERATOR

from .actor import SYSTEM, Actor
from .bulk import cancel_job, claim_item, end_jobs, item_ended, item_passed_over, start_job
from .cancel import cancel_queued
from .clock import bring_back_due
from .delivery import Consumers, Handover
from .events import due_events, event_claimed, event_failed, event_told, lock_event
from .feed import list_in_feed
from .forward import (
    Due,
    NoWayOnward,
    due_forwards,
    lock_routed,
    send_on_failed,
    sent_on,
    way_onward,
)
from .inbound import Received, accept_at_once, note_unexpected, owe_error, receive_message
from .incidents import (
    add_note,
    assign_incident,
    note_clock_doubtful,
    note_retention_too_short,
    note_stuck,
    resolve_incident,
    resolve_passed,
)
from .isolated import (
    describe,
    isolate_best_effort,
    isolate_lane,
    isolate_signal,
    one_line,
    processing_failed,
)
from .lanes import Lanes
from .notices import claim_notices, make_notices, notice_failed, notices_told
from .outbound import (
    corrected,
    end_best_effort,
    submitted,
    submitted_together,
    use_outbound_link,
)
from .receiving import hold_resets, set_receiving
from .refusals import count_unanswered, count_unnoted, may_note
from .settings_changed import Snapshot, record_changes, snapshot
from .signals import SignalResult, signal_claim, signal_end
from .start import open_missing_links, start_link
from .switches import Switch, set_switch
from .traffic import count_traffic
from .work import (
    AT_ONCE,
    Places,
    Work,
    find_best_effort,
    find_lanes,
    find_signals,
    find_work,
    no_more_work,
    work_of_best_effort,
    work_of_lane,
    work_of_signal,
)

__all__ = [
    "AT_ONCE",
    "OPERATOR",
    "SYSTEM",
    "Actor",
    "Consumers",
    "Due",
    "Handover",
    "Lanes",
    "NoWayOnward",
    "Places",
    "Received",
    "SignalResult",
    "Snapshot",
    "Switch",
    "Work",
    "accept_at_once",
    "add_note",
    "assign_incident",
    "bring_back_due",
    "cancel_job",
    "cancel_queued",
    "claim_item",
    "claim_notices",
    "corrected",
    "count_traffic",
    "count_unanswered",
    "count_unnoted",
    "describe",
    "due_events",
    "due_forwards",
    "end_best_effort",
    "end_jobs",
    "event_claimed",
    "event_failed",
    "event_told",
    "find_best_effort",
    "find_lanes",
    "find_signals",
    "find_work",
    "hold_resets",
    "isolate_best_effort",
    "isolate_lane",
    "isolate_signal",
    "item_ended",
    "item_passed_over",
    "list_in_feed",
    "lock_event",
    "lock_routed",
    "make_notices",
    "may_note",
    "no_more_work",
    "note_clock_doubtful",
    "note_retention_too_short",
    "note_stuck",
    "note_unexpected",
    "notice_failed",
    "notices_told",
    "one_line",
    "open_missing_links",
    "owe_error",
    "processing_failed",
    "receive_message",
    "record_changes",
    "resolve_incident",
    "resolve_passed",
    "send_on_failed",
    "sent_on",
    "set_receiving",
    "set_switch",
    "signal_claim",
    "signal_end",
    "snapshot",
    "start_job",
    "start_link",
    "submitted",
    "submitted_together",
    "use_outbound_link",
    "way_onward",
    "work_of_best_effort",
    "work_of_lane",
    "work_of_signal",
]
