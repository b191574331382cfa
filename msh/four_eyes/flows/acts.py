"""The acts that a second person may confirm: how each is done from what its request has stored,
and which permissions it needs. The names are those of the acts (`msh.protocol.four_eyes`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from msh.flows.errors import NotPossible
from msh.flows.operations import prune as retention
from msh.flows.operations import resynchronise
from msh.flows.operations.actions import CANCEL
from msh.flows.operations.conversation_actions import (
    DROP_HELD,
    RESTART_CONVERSATION,
    SKIP_MISSING,
    START_ORDER_IN,
    START_ORDER_OUT,
)
from msh.flows.operations.link_actions import (
    CANCEL_QUEUE,
    EXPECT,
    RESET_SEQUENCE,
    RESYNCHRONISE,
    REWIND,
)
from msh.flows.operations.many import cancel_queue
from msh.flows.operations.operator_action import OperatorAction
from msh.models import OutboundLink, OutboundMessage
from msh.protocol import link_status
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from partners.models import Agreement, Partner

Values = Mapping[str, Any]


def _nothing(values: Values) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ConfirmedAct:
    """`do` says what was done. `ask` is what it asks over the network before, in no transaction;
    `do` gets the answer. Both raise NotPossible."""

    title: str
    permissions: tuple[str, ...]
    do: Callable[[Values, Any, Actor], str]
    ask: Callable[[Values], Any] = _nothing


def _ask_partner(values: Values) -> Any:
    """Return what it says now: the facts of the request have what it said then."""
    if values["typed"] is not None:
        return link_status.of_typed(values["typed"])
    return resynchronise.ask(_partner(values))


def _rewind(values: Values, theirs: Any, actor: Actor) -> str:
    resynchronise.rewind(_partner(values), theirs, actor)
    return "Done: the lost messages are sent again."


def _resynchronise(values: Values, theirs: Any, actor: Actor) -> str:
    """Rewind, and nothing else: if something else would help now, nobody has confirmed that."""
    act = resynchronise.RESYNCHRONISE
    resynchronise.rewind(_partner(values), theirs, actor, act=act)
    return "Done: the lost messages are sent again."


def _cancel_queue(values: Values, asked: object, actor: Actor) -> str:
    link = OutboundLink.objects.select_related("partner").get(pk=values["link"])
    confirmation = UUID(values["confirmation"]) if values["confirmation"] else None
    job = cancel_queue.cancel_queue(link, actor, values["last"], confirmation)
    return f"Bulk job {job.pk} cancels {job.total} messages."


def _prune(values: Values, asked: object, actor: Actor) -> str:
    retention.confirm(actor, clock_is_right=values["clock_is_right"])
    return "A worker prunes in the background."


def _partner(values: Values) -> Partner:
    return Partner.objects.get(pk=values["partner"])


def _message(values: Values) -> OutboundMessage:
    messages = OutboundMessage.objects.select_related("link__partner", "agreement")
    message = messages.filter(pk=values["message"]).first()
    if message is None:
        raise NotPossible("The message was removed.")
    return message


def _declared(
    action: OperatorAction, find: Callable[[Values], Sequence[Any]], **fixed: Any
) -> ConfirmedAct:
    """Return the act as the action is declared. `find` finds what its flow takes."""

    def do(values: Values, asked: object, actor: Actor) -> str:
        names = [one.name for one in action.parameters]
        given = {name: values[name] for name in names if name in values}
        return f"Done: {action.do(*find(values), actor=actor, **given, **fixed).text}."

    return ConfirmedAct(action.title, action.permissions, do)


def _of_partner(values: Values) -> Sequence[Any]:
    return [_partner(values)]


def _of_conversation(values: Values) -> Sequence[Any]:
    agreements = Agreement.objects.select_related("partner")
    return [agreements.get(pk=values["agreement"]), values["conversation"]]


ACTS: Mapping[str, ConfirmedAct] = {
    "cancel": replace(
        _declared(CANCEL, lambda values: [_message(values)], verdict=Verdict.UNKNOWN),
        title="Cancel with the verdict unknown",
    ),
    "cancel_queue": ConfirmedAct(CANCEL_QUEUE.title, CANCEL_QUEUE.permissions, _cancel_queue),
    "reset_sequence": _declared(RESET_SEQUENCE, _of_partner),
    "expect": _declared(EXPECT, _of_partner),
    resynchronise.RESYNCHRONISE: ConfirmedAct(
        RESYNCHRONISE.title, RESYNCHRONISE.permissions, _resynchronise, _ask_partner
    ),
    resynchronise.REWIND: ConfirmedAct(REWIND.title, REWIND.permissions, _rewind, _ask_partner),
    "prune": ConfirmedAct(
        "Prune by hand",
        ("django_celery_beat.change_periodictask",),  # of who may have it pruned every night
        _prune,
    ),
    **{
        name: _declared(action, _of_conversation)
        for name, action in (
            ("restart_conversation", RESTART_CONVERSATION),
            ("start_order_out", START_ORDER_OUT),
            ("start_order_in", START_ORDER_IN),
            ("skip_missing", SKIP_MISSING),
            ("drop_held", DROP_HELD),
        )
    },
}
