"""What operators can do, each declared once: the console, the API and the commands use this table.

A row says what the action is called, who may use it, what it does and which function does it. The
console adds what only a dialog has (an icon, a form, what it will do to the row that is shown), the
API a document of the answer, a command its output. A new action is a row here, a permission of its
model, and an entry in `msh.roles`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msh.flows.operations import (
    bulk_jobs,
    cancel,
    change_delivery,
    change_incident,
    change_link,
    correct,
    resynchronise,
)
from msh.protocol import sequence
from msh.protocol.events import (
    MessageCancelled,
    Numbered,
    OperatorResumed,
    OperatorSuspended,
    RetriesReset,
    SenderEvent,
    SendNowRequested,
    SequenceReset,
    SequenceRewound,
)
from msh.protocol.kinds import Verdict
from msh.store.operations.operator_actions import Switch


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an operator has to say besides the reason: `minimum` and `maximum` of a number, or one
    of `choices`."""

    name: str
    help: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """Something that an operator can do to one row. A user needs all `permissions`.

    `name` has underscores; addresses of the API and commands have hyphens instead. `summary` is
    what the command or the API says of it, in one sentence; `effect` what a dialog says before it
    is done, with {partner} for the name of the row's partner. `done` says afterwards what was done.
    `flow` raises NotPossible where the action makes no sense now.
    """

    name: str
    title: str
    summary: str = ""
    effect: str = ""
    done: str = ""
    permissions: tuple[str, ...]
    flow: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
    irreversible: bool = False

    @property
    def hyphenated(self) -> str:
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAction(OperatorAction):
    """One event on the link to a partner: the sender's table says in which states it may be."""

    event: SenderEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchAction(OperatorAction):
    """Turns one switch of a partner on or off."""

    switch: Switch
    on: bool


def _on_link(name: str, flow: Callable[..., Any], event: SenderEvent, **values: Any) -> LinkAction:
    permissions = ("msh.view_outboundlink", f"msh.{name}_outboundlink")
    return LinkAction(name=name, flow=flow, event=event, permissions=permissions, **values)


NUMBER = Parameter("number", "1 to 999999999", sequence.FIRST, sequence.LAST)
VERDICT = Parameter(
    "verdict",
    "in flight: did the partner receive it? unknown starts the numbers again at 1",
    choices=tuple(verdict.value for verdict in Verdict),
)

# Links to partners

SUSPEND = _on_link(
    "suspend",
    change_link.suspend,
    OperatorSuspended(),
    title="Suspend",
    summary="Send nothing more to a partner until it is resumed. The message in flight stays in"
    " flight.",
    done="suspended",
)
RESUME = _on_link(
    "resume",
    change_link.resume,
    OperatorResumed(),
    title="Resolve and resume",
    summary="Resolve and resume: the retry counter is reset, and the same bytes of the uncompleted"
    " message are sent first.",
    done="resumed",
)
SEND_NOW = _on_link(
    "send_now",
    change_link.send_now,
    SendNowRequested(),
    title="Send now",
    summary="Send the message in flight again at once. No retry is used.",
    done="sending the message again now",
)
RESET_RETRIES = _on_link(
    "reset_retries",
    change_link.reset_retries,
    RetriesReset(),
    title="Reset retries",
    summary="Reset the retry counter of the message in flight. Its deadline stays.",
    done="retry counter reset",
)
RESET_SEQUENCE = _on_link(
    "reset_sequence",
    resynchronise.reset_sequence,
    SequenceReset(),
    title="Reset sequence",
    summary="Start the numbers to a partner again at 1. Only when nothing is in flight or in"
    " doubt.",
    done="the next message gets number 1",
    irreversible=True,
)
CANCEL_IN_FLIGHT = _on_link(
    "cancel",
    cancel.cancel,
    MessageCancelled(Verdict.RECEIVED),
    title="Cancel message in flight",
    done="message cancelled",
    parameters=(VERDICT,),
    irreversible=True,
)
RESYNCHRONISE = _on_link(
    "resynchronise",
    resynchronise.apply,
    SequenceRewound(Numbered(0, 1)),
    title="Resynchronise and resume",
    effect="Our sequence numbers and those of {partner} are brought in sync as shown below, then"
    " sending resumes. Messages that are sent again have the same bytes. The partner must have"
    " finished its own repairs, and must not reset anything in the meantime.",
    done="sequence numbers in sync",
)
REWIND = _on_link(
    "rewind",
    resynchronise.rewind,
    SequenceRewound(Numbered(0, 1)),
    title="Rewind and resume",
    effect="For a partner that was restored from a backup. Messages that {partner} had"
    " acknowledged and lost are sent again before the queue, with the same bytes and numbers. The"
    " partner must tell you the last message that it still has.",
    done="lost messages are sent again",
    irreversible=True,
)

# Links from partners

ALLOW_RESET = OperatorAction(
    name="allow_reset",
    title="Allow reset",
    summary="Let a partner start its numbers again at 1, whatever the agreement says. Once.",
    effect="The next message from {partner} with number 1 is accepted as a reset of its sequence"
    " numbers, once, whatever the agreement says. The partner must send it (again).",
    permissions=("msh.view_inboundlink", "msh.allow_reset_inboundlink"),
    flow=resynchronise.allow_reset,
)
HOLD_RESETS = OperatorAction(
    name="hold_resets",
    title="Hold resets",
    effect="An unexpected number 1 from {partner} is no longer accepted: the partner is told to"
    " wait, and an incident is opened. This sets On unexpected first to hold in all agreements with"
    " the partner, until somebody changes them. The partner does not have to do anything.",
    permissions=("msh.view_inboundlink", "msh.hold_resets_inboundlink"),
    flow=resynchronise.hold_resets,
)
EXPECT = OperatorAction(
    name="expect",
    title="Set expected number",
    summary="Accept this number next from a partner. The ones before it are given up as lost.",
    permissions=("msh.view_inboundlink", "msh.expect_inboundlink"),
    flow=resynchronise.expect,
    parameters=(NUMBER,),
    irreversible=True,
)


# The two switches of a partner


def _switch(which: Switch, link: str, *, on: bool, **values: Any) -> SwitchAction:
    return SwitchAction(
        name=f"{'start' if on else 'stop'}_{which.value}",
        permissions=(f"msh.view_{link}", "partners.switch_partner"),
        flow=partial(change_link.switch, which=which, on=on),
        switch=which,
        on=on,
        **values,
    )


REFUSE_SUBMISSIONS = _switch(
    Switch.ACCEPTS,
    "outboundlink",
    on=False,
    title="Refuse submissions",
    effect="Applications that submit messages for this partner get an error. Messages in the queue"
    " are still sent. This lasts until somebody accepts submissions again. The partner does not"
    " have to do anything.",
    done="submissions are refused",
)
ACCEPT_SUBMISSIONS = _switch(
    Switch.ACCEPTS,
    "outboundlink",
    on=True,
    title="Accept submissions",
    effect="Messages that applications submit for this partner are accepted again. Applications"
    " must submit refused messages again. The partner does not have to do anything.",
    done="submissions are accepted",
)
HOLD_DELIVERIES = _switch(
    Switch.DELIVERS,
    "inboundlink",
    on=False,
    title="Hold deliveries",
    effect="Messages from this partner are still stored and acknowledged, but not delivered to"
    " consumers until somebody resumes deliveries. The partner does not have to do anything.",
    done="deliveries are held",
)
RESUME_DELIVERIES = _switch(
    Switch.DELIVERS,
    "inboundlink",
    on=True,
    title="Resume deliveries",
    effect="The waiting messages are delivered in order, then new ones. The partner does not have"
    " to do anything.",
    done="deliveries are resumed",
)

# Messages

CANCEL = OperatorAction(
    name="cancel",
    title="Cancel",
    summary="Cancel a queued message; or the one in flight, with a verdict. Its sender is"
    " notified.",
    effect="The message has never been sent and is not sent. It leaves no gap in the sequence"
    " numbers. Its sender is notified. The partner does not have to do anything.",
    permissions=("msh.view_outboundmessage", "msh.cancel_outboundlink"),
    flow=cancel.cancel,
    parameters=(VERDICT,),
    irreversible=True,
)
CORRECT = OperatorAction(
    name="correct",
    title="Cancel and submit corrected copy",
    permissions=(*CANCEL.permissions, "msh.correct_outboundmessage"),
    flow=correct.correct,
    irreversible=True,
)

# Deliveries


def _decision(name: str, title: str, effect: str) -> OperatorAction:
    """`name` as in the command `decide`."""
    return OperatorAction(
        name=name.replace("-", "_"),
        title=title,
        effect=effect,
        done=f"{title}: done.",
        permissions=("msh.view_delivery", "msh.decide_delivery"),
        flow=partial(change_delivery.decide_one, decision=name),
    )


RUN_AGAIN = _decision(
    "run-again",
    "Run again",
    "The message is delivered to its consumer again, as a new attempt with all retries. If the"
    " consumer already has it, only the Idempotency-Key prevents double processing.",
)
DECISIONS = (
    RUN_AGAIN,
    _decision(
        "mark-completed",
        "Mark completed",
        "You confirm that the consumer has the message. It is not delivered again; messages behind"
        " it are delivered.",
    ),
    _decision(
        "ask-resolver",
        "Ask resolver",
        "The consumer's resolver is asked for the outcome, which is then recorded.",
    ),
    _decision(
        "park",
        "Park",
        "Messages behind it are delivered. The message itself is not delivered until you decide"
        " again: run again, mark completed or reject. If its outcome is in doubt, it stays in"
        " doubt.",
    ),
    _decision(
        "reject",
        "Reject",
        "The message is stored but not delivered any more. Messages behind it are delivered.",
    ),
)

# Incidents

_ASSIGN = ("msh.view_incident", "msh.assign_incident")

RESOLVE = OperatorAction(
    name="resolve",
    title="Resolve",
    summary="Close an incident. Nothing is sent, accepted or changed by it.",
    effect="The incident is closed with your reason. Nothing else changes. If the same cause occurs"
    " again, a new incident is opened. The partner does not have to do anything.",
    done="The incident is resolved.",
    permissions=("msh.view_incident", "msh.resolve_incident"),
    flow=change_incident.resolve,
)
ASSIGN_TO_ME = OperatorAction(
    name="take",
    title="Assign to me",
    done="The incident is assigned to you.",
    permissions=_ASSIGN,
    flow=change_incident.take,
)
ASSIGN = OperatorAction(
    name="assign",
    title="Assign",
    permissions=_ASSIGN,
    flow=change_incident.assign,
    parameters=(Parameter("to", "name of the user; empty: nobody"),),
)
NOTE = OperatorAction(
    name="note",
    title="Add note",
    effect="The note is stored with the incident. All users see it. Nothing else changes.",
    done="Note added.",
    permissions=_ASSIGN,
    flow=change_incident.note,
)

# Bulk jobs

CANCEL_JOB = OperatorAction(
    name="cancel",
    title="Cancel job",
    done="Job cancelled. No more rows are started.",
    permissions=("msh.view_bulkjob", "msh.bulk_bulkjob"),
    flow=bulk_jobs.cancel,
)
