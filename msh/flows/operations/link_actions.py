"""Operators' actions on the links to and from a partner, and on its switches."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from msh.flows.operations import (
    cancel,
    change_inbound_link,
    change_link,
    resynchronise,
)
from msh.flows.operations.many import cancel_queue
from msh.flows.operations.operator_action import (
    CONFIRMATION,
    IF_MESSAGE,
    IF_SUSPENDED_SINCE,
    LAST,
    LINK,
    VERDICT,
    LinkAction,
    OperatorAction,
    Parameter,
    number,
)
from msh.models import Direction, InboundLink
from msh.protocol import receiver, sequence
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    MessageCancelled,
    Numbered,
    SenderEvent,
    SequenceReset,
    SequenceRewound,
)
from msh.protocol.four_eyes import Verb
from msh.protocol.kinds import OnUnexpectedFirst, Verdict
from msh.store.operations.operator_actions import Switch, is_unused

from . import maintenance

_SEEN = (IF_MESSAGE, IF_SUSPENDED_SINCE)


def _on_link(name: str, flow: Callable[..., Any], event: SenderEvent, **values: Any) -> LinkAction:
    permissions = _permissions(name)
    return LinkAction(
        name=name, flow=flow, event=event, permissions=permissions, subject=LINK, **values
    )


def _change(name: str, change: change_link.LinkChange, **values: Any) -> LinkAction:
    return _on_link(name, change, change.event, parameters=_SEEN, **values)


def _permissions(name: str) -> tuple[str, ...]:
    return "msh.view_outboundlink", f"msh.{name}_outboundlink"


# Links to partners

CANCEL_QUEUE = OperatorAction(
    name="cancel_queue",
    title="Cancel queue",
    summary="Cancel all messages that are queued to a partner now, as a bulk job, oldest first. The"
    " message in flight stays.",
    permissions=("msh.view_outboundmessage", *_permissions("cancel"), "msh.bulk_bulkjob"),
    flow=cancel_queue.cancel_queue,
    parameters=(
        Parameter(
            name="last",
            help="`last` of the queue that you have seen: what came later stays. Default: of the"
            " queue as it is now.",
            kind=int,
            required=False,
            minimum=1,
            maximum=2**63 - 1,
        ),
        CONFIRMATION,
    ),
    irreversible=True,
    second_person=Verb.BULK_CANCEL,
)
SUSPEND = _change(
    "suspend",
    change_link.suspend,
    title="Suspend",
    summary="Send nothing more to a partner until it is resumed. The message in flight stays in"
    " flight.",
    done="suspended",
)
RESUME = _change(
    "resume",
    change_link.resume,
    title="Resume sending",
    summary="Resolve the incidents of a link and resume it: the retry counter is reset, and the"
    " message in flight is sent first, with the same bytes.",
    done="resumed",
)
SEND_NOW = _change(
    "send_now",
    change_link.send_now,
    title="Send now",
    summary="Send the message in flight again at once. No retry is used.",
    done="sending the message again now",
)
RESET_RETRIES = _change(
    "reset_retries",
    change_link.reset_retries,
    title="Reset retries",
    summary="Reset the retry counter of the message in flight. Its deadline stays.",
    done="retry counter reset",
)
RESET_SEQUENCE = _on_link(
    "reset_sequence",
    resynchronise.reset_sequence,
    SequenceReset(),
    title="Reset sequence",
    summary="Restart the numbers to a partner at 1. Only when nothing is in flight or in doubt.",
    parameters=_SEEN,
    irreversible=True,
    of_numbers=True,
    second_person=Verb.RESET,
)
CANCEL_IN_FLIGHT = _on_link(
    "cancel",
    cancel.cancel,
    MessageCancelled(Verdict.RECEIVED),
    title="Cancel message in flight",
    done="message cancelled",
    parameters=(VERDICT,),
    irreversible=True,
    of_numbers=True,
    second_person=Verb.UNKNOWN,
)
RESYNCHRONISE = _on_link(
    "resynchronise",
    resynchronise.apply,
    SequenceRewound(Numbered(0, 1)),
    title="Resynchronise and resume",
    effect="Choose this if you are not sure: both sides are compared, and what helps is done,"
    " whether one of them was restored from a backup or is a new installation. Our sequence"
    " numbers and those of {partner} are brought in sync as shown below, then sending resumes."
    " Messages that are sent again have the same bytes. The partner must have finished its own"
    " repairs, and must not reset anything in the meantime.",
    done="sequence numbers in sync",
    of_numbers=True,
    second_person=Verb.REWIND,
)
REWIND = _on_link(
    "rewind",
    resynchronise.rewind,
    SequenceRewound(Numbered(0, 1)),
    title="Rewind and resume",
    effect="Choose this only if {partner} was restored from a backup or is a new installation; in"
    " other cases it does nothing. “Resynchronise and resume” includes it. Messages that {partner}"
    " had acknowledged and lost are sent again before the queue, with the same bytes and numbers."
    " The partner must tell you the last message that it still has.",
    done="lost messages are sent again",
    irreversible=True,
    of_numbers=True,
    second_person=Verb.REWIND,
)


def _planned(window: Any, partner: object, given: Mapping[str, Any]) -> Mapping[str, object]:
    return {"window": window.pk, "starts_at": window.starts_at, "ends_at": window.ends_at}


PLAN_MAINTENANCE = OperatorAction(
    name="plan_maintenance",
    title="Plan maintenance",
    summary="Suspend a partner at one time and resume it at another. Nobody is called about it"
    " in between.",
    effect="Sending to {partner} is suspended at the beginning and resumed at the end, in your"
    " name and with your reason. Operators are not called about {partner} in between; an"
    " incident that is still open at the end is announced then. Messages from {partner} are"
    " received as usual.",
    done="maintenance window {window} is planned from {starts_at:%Y-%m-%d %H:%M} to"
    " {ends_at:%Y-%m-%d %H:%M} UTC",
    permissions=(*_permissions("suspend"), "msh.resume_outboundlink"),
    subject=LINK,
    flow=maintenance.plan,
    facts=_planned,
    parameters=(
        Parameter(
            name="starts_at",
            help="When sending is suspended; default: now.",
            kind=datetime,
            required=False,
            option="from",
        ),
        Parameter(
            name="ends_at",
            help="When it resumes: at most 31 days later.",
            kind=datetime,
            option="until",
        ),
        Parameter(
            name="resume_suspended",
            help="At the end, also resume a link that was already suspended at the beginning.",
            kind=bool,
            required=False,
        ),
    ),
)

# Links from partners


def _why_no_reset(row: InboundLink) -> str:
    try:
        receiver.allow_reset(row.receiving)
    except IllegalTransition:
        if row.reset_allowed:
            return "a reset is already allowed."
        return f"{row.partner} has not sent anything yet."
    return ""


def _why_not_held(row: InboundLink) -> str:
    agreements = row.partner.agreements.exclude(on_unexpected_first=OnUnexpectedFirst.HOLD)
    if row.reset_allowed or agreements.exists():
        return ""
    return f"unexpected resets of {row.partner} are already held."


ALLOW_RESET = OperatorAction(
    name="allow_reset",
    title="Allow reset",
    summary="Allow a partner to restart its numbers at 1 once, whatever the agreement says.",
    effect="The next message from {partner} with number 1 is accepted as a reset of its sequence"
    " numbers, once, whatever the agreement says. The partner must send it (again).",
    done="the next message with number 1 is accepted as a reset",
    permissions=("msh.view_inboundlink", "msh.allow_reset_inboundlink"),
    subject=LINK,
    flow=change_inbound_link.allow_reset,
    facts=lambda _, __, ___: {"reset_allowed": True},
    why_not=_why_no_reset,
    of_numbers=True,
)
HOLD_RESETS = OperatorAction(
    name="hold_resets",
    title="Hold resets",
    effect="An unexpected number 1 from {partner} is no longer accepted: the partner is asked to"
    " wait, and an incident is opened. This sets Unexpected number 1 to hold in all"
    " agreements with the partner, until somebody changes them. The partner does not have"
    " to do anything.",
    done="unexpected resets are held",
    permissions=("msh.view_inboundlink", "msh.hold_resets_inboundlink"),
    subject=LINK,
    flow=change_inbound_link.hold_resets,
    why_not=_why_not_held,
    of_numbers=True,
)
NUMBER = number(
    "number",
    "The number that is accepted next.",
    "Number",
    sequence.FIRST,
    sequence.LAST,
)
EXPECT = OperatorAction(
    name="expect",
    title="Set expected number",
    summary=(
        "Accept this number next from a partner. The missing ones before it are given up as lost."
    ),
    done="number {expected} is expected next. Given up as lost: {given_up}",
    permissions=("msh.view_inboundlink", "msh.expect_inboundlink"),
    subject=LINK,
    flow=change_inbound_link.expect,
    parameters=(NUMBER,),
    facts=lambda lost, _, given: {"expected": given["number"], "given_up": lost},
    irreversible=True,
    of_numbers=True,
    second_person=Verb.EXPECT,
)


# Links that were never used: the numbers of another MSH are continued (D50)


def _start(direction: Direction, link: str, permission: str, effect: str) -> OperatorAction:
    return OperatorAction(
        name="set_last_number",
        title="Set last number",
        summary="Set the last number of an unused link; the next message gets the following one.",
        effect=effect,
        done="the last number is {last}",
        permissions=(f"msh.view_{link}", f"msh.{permission}_{link}"),
        subject=LINK,
        flow=partial(change_link.start_link, direction=direction),
        parameters=(LAST,),
        facts=lambda _, partner, given: {"direction": direction.value, "last": given["last"]},
        why_not=lambda row: "" if is_unused(row) else "the link is in use.",
        of_numbers=True,
    )


SET_LAST_NUMBER_OUT = _start(
    Direction.OUT,
    "outboundlink",
    "reset_sequence",
    "For a partner that you take over from another MSH. Our next message to {partner} gets the"
    " number after the one that you enter.",
)
SET_LAST_NUMBER_IN = _start(
    Direction.IN,
    "inboundlink",
    "expect",
    "For a partner that you take over from another MSH. The next message from {partner} must have"
    " the number after the one that you enter.",
)

# The two switches of a partner


def _switch(name: str, which: Switch, link: str, *, on: bool, **values: Any) -> OperatorAction:
    done = f"{values['done']} already."
    return OperatorAction(
        name=name,
        permissions=(f"msh.view_{link}", "partners.switch_partner"),
        subject=LINK,
        flow=partial(change_link.switch, which=which, on=on),
        why_not=lambda row: done if getattr(row.partner, which.value) == on else "",
        **values,
    )


REFUSE_SUBMISSIONS = _switch(
    "refuse_submissions",
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
    "accept_submissions",
    Switch.ACCEPTS,
    "outboundlink",
    on=True,
    title="Accept submissions",
    effect="Messages that applications submit for this partner are accepted again. Applications"
    " must submit refused messages again. The partner does not have to do anything.",
    done="submissions are accepted",
)
HOLD_DELIVERIES = _switch(
    "hold_deliveries",
    Switch.DELIVERS,
    "inboundlink",
    on=False,
    title="Hold deliveries",
    effect="Messages from this partner are still stored and acknowledged, but not delivered to"
    " consumers until somebody resumes deliveries. The partner does not have to do anything.",
    done="deliveries are held",
)
RESUME_DELIVERIES = _switch(
    "resume_deliveries",
    Switch.DELIVERS,
    "inboundlink",
    on=True,
    title="Resume deliveries",
    effect="The waiting messages are delivered in order, then new ones. The partner does not have"
    " to do anything.",
    done="deliveries are resumed",
)
