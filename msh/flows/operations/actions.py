"""Operators' actions on messages, deliveries, incidents and bulk jobs. Those on links are in
`link_actions.py`, those on conversations in `conversation_actions.py`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msh.flows.operations import (
    cancel,
    change_delivery,
    change_flight,
    change_incident,
    operator_submissions,
    refusals,
)
from msh.flows.operations.many import bulk_jobs, replay
from msh.flows.operations.operator_action import (
    CONFIRMATION,
    MESSAGE,
    REFUSAL,
    VERDICT,
    OperatorAction,
    Parameter,
)
from msh.flows.receiving import questions
from msh.models import BulkJob, Incident, MaintenanceWindow, OutboundMessage
from msh.protocol.four_eyes import Verb

from . import maintenance

Given = Mapping[str, Any]
Facts = Mapping[str, object]


# Messages


def _cancelled(_: object, message: OutboundMessage, given: Given) -> Facts:
    message.refresh_from_db(fields=["state", "outcome"])
    return {"state": message.state, "outcome": message.outcome}


def _copied(copy: OutboundMessage, message: OutboundMessage, given: Given) -> Facts:
    message.refresh_from_db(fields=["state"])
    return {"state": message.state, "submitted_as": copy.message_id}


CANCEL = OperatorAction(
    name="cancel",
    title="Cancel",
    summary="Cancel a queued message, or the one in flight with a verdict. Its sender is notified.",
    effect="The message has never been sent and will not be sent. It leaves no gap in the"
    " sequence numbers. Its sender is notified. The partner does not have to do anything.",
    done="cancelled. Its sender is notified",
    permissions=("msh.view_outboundmessage", "msh.cancel_outboundlink"),
    subject=MESSAGE,
    flow=lambda message, actor, verdict=None: cancel.cancel(message, verdict, actor),
    parameters=(VERDICT,),
    facts=_cancelled,
    irreversible=True,
    second_person=Verb.UNKNOWN,
)
CORRECT = OperatorAction(
    name="correct",
    title="Cancel and submit corrected copy",
    permissions=(*CANCEL.permissions, "msh.correct_outboundmessage"),
    flow=operator_submissions.correct,
    irreversible=True,
    second_person=Verb.UNKNOWN,
)

SUBMIT_AGAIN = OperatorAction(
    name="submit_again",
    title="Submit again",
    summary="Submit a message that failed or was cancelled again, as a new message with the same"
    " payloads.",
    done="submitted again as {submitted_as}",
    permissions=CORRECT.permissions,
    subject=MESSAGE,
    flow=operator_submissions.submit_again,
    parameters=(VERDICT,),
    facts=_copied,
    second_person=Verb.UNKNOWN,
)

TAKE_BACK_REFUSAL = OperatorAction(
    name="take_back_refusal",
    title="Take back refusal",
    summary="Forget that an ebMS 2.0 message was refused: its next copy is judged anew.",
    effect="The refusal is forgotten here, and the next copy of the message is judged anew: as a"
    " new message, by the agreement and the clock of that moment. Nothing is sent. {partner} may"
    " count the message as failed: ask them to send it again with the same MessageId.",
    done="the next copy of the message is judged anew. It was refused: {refused}",
    permissions=("msh.view_signal", "msh.take_back_refusal_signal"),
    subject=REFUSAL,
    flow=refusals.take_back,
    facts=lambda said, _, __: {"refused": said},
    why_not=lambda row: "" if row.is_kept_refusal else "no refusal of this message is kept.",
)

# Messages of partners that take several at once: the actions of a link, on one message


def _on_message(name: str, title: str, summary: str, effect: str = "") -> OperatorAction:
    return OperatorAction(
        name=name,
        title=title,
        summary=summary,
        effect=effect,
        done="it is {state}",
        permissions=("msh.view_outboundmessage", f"msh.{name}_outboundlink"),
        subject=MESSAGE,
        flow=change_flight.VERBS[name],
    )


SUSPEND_MESSAGE = _on_message(
    "suspend",
    "Suspend message",
    "Send no further copy of a message until it is resumed. Other messages are still sent.",
    "No more copies of the message are sent until somebody resumes it. Other messages to {partner}"
    " are still sent. An Acknowledgement that arrives completes it. The partner does not have to do"
    " anything.",
)
RESUME_MESSAGE = _on_message(
    "resume",
    "Resume message",
    "Send a held message again, with the same bytes and all its retries.",
)
SEND_NOW_MESSAGE = _on_message(
    "send_now",
    "Send message now",
    "Send one more copy of a message now. No retry is used.",
    "One more copy of the message is sent to {partner} now, with the same bytes and MessageId. No"
    " retry is used. If the partner has already stored the message, it discards the duplicate and"
    " acknowledges it again. The partner does not have to do anything else.",
)
RESET_RETRIES_MESSAGE = _on_message(
    "reset_retries",
    "Reset retries of message",
    "Reset the retry counter of one message. Its deadline stays.",
)
ASK_STATUS = OperatorAction(
    name="ask_status",
    title="Ask for status",
    summary="Ask the partner's MSH what has become of a message.",
    effect="A StatusRequest is sent to {partner}; the console waits at most 15 s for the answer."
    " The answer is recorded in the history of the message and changes nothing else: if the partner"
    " has the message and does not acknowledge it, cancel it with that verdict.",
    permissions=("msh.view_outboundmessage", "msh.send_now_outboundlink"),
    subject=MESSAGE,
    flow=partial(questions.ask_status, patience=questions.PATIENCE_OF_A_PAGE),
)
ON_MESSAGE = (SUSPEND_MESSAGE, RESUME_MESSAGE, SEND_NOW_MESSAGE, RESET_RETRIES_MESSAGE)

# Deliveries


def _decision(name: str, title: str, effect: str) -> OperatorAction:
    return OperatorAction(
        name=name.replace("-", "_"),
        title=title,
        effect=effect,
        done=f"{title}: done",
        permissions=("msh.view_delivery", "msh.decide_delivery"),
        flow=lambda row, actor: change_delivery.decide_one(row.pk, actor, decision=name),
    )


RUN_AGAIN = _decision(
    "run-again",
    "Run again",
    "The message is delivered to its consumer again, as a new attempt with all retries. If the"
    " consumer already has it, only the Idempotency-Key prevents double processing.",
)
MARK_COMPLETED = _decision(
    "mark-completed",
    "Mark completed",
    "You confirm that the consumer has the message. It is not delivered again; messages behind"
    " it are delivered.",
)
ASK_RESOLVER = _decision(
    "ask-resolver",
    "Ask resolver",
    "The consumer's resolver is asked for the outcome, which is then recorded.",
)
PARK = _decision(
    "park",
    "Park",
    "Messages behind it are delivered. The message itself is not delivered until you decide"
    " again: run again, mark completed or reject. If its outcome is in doubt, it stays in"
    " doubt.",
)
DECISIONS = (
    RUN_AGAIN,
    MARK_COMPLETED,
    ASK_RESOLVER,
    PARK,
    _decision(
        "reject",
        "Reject",
        "The message is stored but not delivered any more. Messages behind it are delivered.",
    ),
)

REPLAY = OperatorAction(
    name="replay",
    title="Replay",
    summary="Deliver a message again to the consumer that has completed it, as a replay.",
    effect="The consumer gets the message once more, as a replay: a separate delivery, marked as"
    " a replay, with another Idempotency-Key. This delivery stays as it is. A replay has"
    " no place in the order of its pair: new messages are delivered meanwhile.",
    done="a bulk job with one row delivers the message again",
    permissions=("msh.view_delivery", "msh.replay_delivery", "msh.bulk_bulkjob"),
    flow=bulk_jobs.replay_one,
    parameters=(CONFIRMATION,),
    why_not=replay.why_not,
)

# Agreements

SEND_TEST_MESSAGE = OperatorAction(
    name="send_test_message",
    title="Send test message",
    effect="A message is submitted under this agreement and sent to {partner}. To the partner it is"
    " a message like any other: it gets the next sequence number, and their application may act on"
    " it. Agree with the partner on ServiceInterface, Action and text.",
    permissions=("partners.view_agreement", "msh.correct_outboundmessage"),
    flow=operator_submissions.send_test_message,
)
"""It has the permission of submitting a corrected copy."""

# Incidents

_ASSIGN = ("msh.view_incident", "msh.assign_incident")


def _resolved(incident: Incident) -> str:
    return f"it was resolved by {incident.resolved_by}." if incident.resolved_at else ""


RESOLVE = OperatorAction(
    name="resolve",
    title="Resolve",
    summary="Close an incident. This does not send, accept or change anything.",
    effect="The incident is closed with your reason. Nothing else changes. If the same cause occurs"
    " again, a new incident is opened. The partner does not have to do anything.",
    done="the incident is resolved",
    permissions=("msh.view_incident", "msh.resolve_incident"),
    flow=change_incident.resolve,
    why_not=lambda row: _resolved(row) or change_incident.cause_left(row),
)
ASSIGN_TO_ME = OperatorAction(
    name="assign_to_me",
    title="Assign to me",
    done="the incident is assigned to you",
    permissions=_ASSIGN,
    flow=change_incident.take,
    why_not=_resolved,
)
ASSIGN = OperatorAction(
    name="assign",
    title="Assign",
    done="the incident is assigned to {to}",
    permissions=_ASSIGN,
    flow=change_incident.assign,
    parameters=(Parameter(name="to", help="Name of the user; empty: nobody.", required=False),),
    facts=lambda _, __, given: {"to": given["to"] or "nobody"},
    why_not=_resolved,
)
NOTE = OperatorAction(
    name="note",
    title="Add note",
    effect="The note is stored with the incident. All users see it. Nothing else changes.",
    done="note added",
    permissions=_ASSIGN,
    flow=change_incident.note,
)

# Maintenance windows


def _ended(_: object, window: MaintenanceWindow, given: Given) -> Facts:
    window.refresh_from_db()
    outcome = window.outcome
    return {"partner": window.partner.name, "state": window.state, "outcome": outcome}


END_MAINTENANCE = OperatorAction(
    name="end",
    title="End window",
    summary="Cancel a maintenance window, or end it early: sending to the partner resumes.",
    done="the window is over. {outcome}",
    facts=_ended,
    permissions=(
        "msh.view_maintenancewindow",
        "msh.suspend_outboundlink",
        "msh.resume_outboundlink",
    ),
    flow=maintenance.end,
)

# Bulk jobs


def _stopped(_: object, job: BulkJob, given: Given) -> Facts:
    job.refresh_from_db()
    return {"state": job.state, "total": job.total, "finished": job.done + job.refused}


CANCEL_JOB = OperatorAction(
    name="cancel",
    title="Cancel job",
    summary="Start no more rows of a bulk job. What it has done stays.",
    done="job {state}. {finished} of {total} rows were finished, and no more are started",
    permissions=("msh.view_bulkjob", "msh.bulk_bulkjob"),
    facts=_stopped,
    flow=bulk_jobs.cancel,
)
