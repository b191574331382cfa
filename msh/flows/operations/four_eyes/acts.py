"""The acts that a second person may confirm: how each is done from what its request has stored,
and which permissions it needs. The names are those of the acts (`msh.protocol.four_eyes`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel, change_inbound_link, resynchronise
from msh.flows.operations import prune as retention
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


def _reset(values: Values, asked: object, actor: Actor) -> str:
    done = resynchronise.reset_sequence(_partner(values), actor)
    return f"Done: {done.text}."


def _ask_partner(values: Values) -> Any:
    """What it says now: the facts of the request have what it said then."""
    if values["typed"] is not None:
        return link_status.of_typed(values["typed"])
    return resynchronise.ask(_partner(values))


def _rewind(values: Values, theirs: Any, actor: Actor) -> str:
    resynchronise.rewind(_partner(values), theirs, actor)
    return "Done: the lost messages are sent again."


def _resynchronise(values: Values, theirs: Any, actor: Actor) -> str:
    """If something else would help now than to rewind, nobody has confirmed that."""
    act = resynchronise.RESYNCHRONISE
    resynchronise.rewind(_partner(values), theirs, actor, act=act)
    return "Done: the lost messages are sent again."


def _cancel(values: Values, asked: object, actor: Actor) -> str:
    messages = OutboundMessage.objects.select_related("link__partner", "agreement")
    message = messages.filter(pk=values["message"]).first()
    if message is None:
        raise NotPossible("The message was removed.")
    cancel.cancel(message, Verdict.UNKNOWN, actor)
    return "Done: the message is cancelled with the verdict unknown."


def _cancel_queue(values: Values, asked: object, actor: Actor) -> str:
    link = OutboundLink.objects.select_related("partner").get(pk=values["link"])
    confirmation = UUID(values["confirmation"]) if values["confirmation"] else None
    job = cancel_queue.cancel_queue(link, actor, values["last"], confirmation)
    return f"Bulk job {job.pk} cancels {job.total} messages."


def _expect(values: Values, asked: object, actor: Actor) -> str:
    lost = change_inbound_link.expect(_partner(values), values["number"], actor)
    return f"Done: given up as lost: {lost}."


def _prune(values: Values, asked: object, actor: Actor) -> str:
    retention.confirm(actor, clock_is_right=values["clock_is_right"])
    return "A worker prunes in the background."


def _of_conversation(flow: Callable[..., Any]) -> Callable[[Values, Any, Actor], str]:
    def do(values: Values, asked: object, actor: Actor) -> str:
        others = {k: v for k, v in values.items() if k not in ("agreement", "conversation")}
        agreement = Agreement.objects.select_related("partner").get(pk=values["agreement"])
        done = flow(agreement, values["conversation"], actor=actor, **others)
        return f"Done. {done.text}." if done else "Done."

    return do


def _partner(values: Values) -> Partner:
    return Partner.objects.get(pk=values["partner"])


ACTS: Mapping[str, ConfirmedAct] = {
    "cancel": ConfirmedAct("Cancel with the verdict unknown", CANCEL.permissions, _cancel),
    "cancel_queue": ConfirmedAct(CANCEL_QUEUE.title, CANCEL_QUEUE.permissions, _cancel_queue),
    "reset_sequence": ConfirmedAct(RESET_SEQUENCE.title, RESET_SEQUENCE.permissions, _reset),
    "expect": ConfirmedAct(EXPECT.title, EXPECT.permissions, _expect),
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
        name: ConfirmedAct(action.title, action.permissions, _of_conversation(action.flow))
        for name, action in (
            ("restart_conversation", RESTART_CONVERSATION),
            ("start_order_out", START_ORDER_OUT),
            ("start_order_in", START_ORDER_IN),
            ("skip_missing", SKIP_MISSING),
            ("drop_held", DROP_HELD),
        )
    },
}
