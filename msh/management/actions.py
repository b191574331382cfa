"""The commands that do an operator's action to one thing, made from the declarations of the
actions: COMMANDS, by name. Each has a module of its name in `commands/`, where Django looks for it.
"""

import getpass
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.management.base import CommandError
from django.db.models import Model

from msh.flows.errors import NotPossible
from msh.flows.operations import actions, cancel, change_conversation, link_actions
from msh.flows.operations import conversation_actions as conversations
from msh.flows.operations.operator_action import OperatorAction, Parameter
from msh.management.cli import MshCommand, reason
from msh.models import BulkJob, MaintenanceWindow
from msh.protocol.four_eyes import Alone
from msh.store.history import Actor

Options = Mapping[str, Any]


def actor_of(options: Options) -> Actor:
    """The user of this process, and the --reason, if there is one."""
    alone = options.get("alone")
    approval = Alone(alone) if alone else None
    return Actor(getpass.getuser(), options["reason"] or "", approval, by_command=True)


def add_alone(parser: ArgumentParser) -> None:
    text = "the reason to go ahead without the second person that MSH_SECOND_PERSON requires"
    parser.add_argument("--alone", type=reason, metavar="REASON", help=text)


def add_reason(parser: ArgumentParser, *, required: bool = True) -> None:
    text = "reason, recorded in the history"
    parser.add_argument("--reason", type=reason, required=required, help=text)


def require_reason(options: Options) -> None:
    """Check that a reason was given, for a command that needs none with `--dry-run`. Raises
    CommandError."""
    if not options["reason"]:
        raise CommandError(
            "A reason is required, unless with --dry-run: it is recorded in the history. Give it"
            " with --reason."
        )


def moment(text: str) -> datetime:
    """A time as `links --json` gives it; without a zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def add_parameter(parser: ArgumentParser, parameter: Parameter) -> None:
    """As an option. The flow checks the limits of a number, and says what they are."""
    name = f"--{(parameter.option or parameter.name).replace('_', '-')}"
    if parameter.kind is bool:
        parser.add_argument(name, dest=parameter.name, action="store_true", help=parameter.help)
        return
    limits = f" {parameter.minimum} to {parameter.maximum}." if parameter.maximum else ""
    zone = " UTC, if it does not say otherwise." if parameter.kind is datetime else ""
    convert: Any = moment if parameter.kind is datetime else parameter.kind
    parser.add_argument(
        name,
        dest=parameter.name,
        required=parameter.required,
        help=f"{parameter.help}{limits}{zone}",
        choices=parameter.choices or None,
        metavar="TIME" if parameter.kind is datetime else None,
        type=str if parameter.choices else convert,
    )


def values_of(parameters: Sequence[Parameter], options: Options) -> dict[str, Any]:
    """Return the values that were given, as the flow takes them."""
    given: dict[str, Any] = {}
    for one in parameters:
        if (value := options[one.name]) is not None:
            convert: Any = one.kind if one.choices else lambda same: same
            given[one.name] = convert(value)
    return given


def begun(job: BulkJob) -> tuple[dict[str, object], str]:
    """Return the output for a bulk job that begins, in JSON and as text."""
    answer: dict[str, object] = {"job": job.pk, "total": job.total}
    return answer, f"bulk job {job.pk} begins with {job.total} rows; see `jobs {job.pk}`."


# --- what an action is done to --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """`parts`: what the flow takes. `answer`: the fields that name it in JSON. `name`: what a
    person is told about it, if anything."""

    parts: Sequence[Any]
    answer: Mapping[str, object]
    name: object


@dataclass(frozen=True, slots=True)
class Finding:
    """The arguments that name what an action is done to, and what finds it. `find` raises
    NotPossible and CommandError."""

    add_arguments: Callable[[ArgumentParser], None]
    find: Callable[[MshCommand, Options], Target]


def _add_partner(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the partner")


def _find_partner(command: MshCommand, options: Options) -> Target:
    name = options["name"]
    return Target([command.partner(name)], {"partner": name}, name)


def _add_flight(parser: ArgumentParser) -> None:
    _add_partner(parser)
    parser.add_argument("--message", metavar="ID", help="act on this message alone (ebMS 2.0)")


def _add_refusal(parser: ArgumentParser) -> None:
    _add_partner(parser)
    text = "the MessageId of the message that was refused"
    parser.add_argument("--message", required=True, help=text)


def _find_refusal(command: MshCommand, options: Options) -> Target:
    about = {"partner": options["name"], "message_id": options["message"]}
    return Target([command.partner(options["name"]), options["message"]], about, options["message"])


def _add_message(parser: ArgumentParser) -> None:
    parser.add_argument("message_id")
    parser.add_argument("--partner", help="its partner, if several have this MessageId")


def _find_message(command: MshCommand, options: Options) -> Target:
    whose = command.partner(options["partner"]) if options["partner"] else None
    message = cancel.find(options["message_id"], whose)
    about = {"message_id": message.message_id, "partner": message.link.partner.name}
    return Target([message], about, message.message_id)


def _add_conversation(parser: ArgumentParser) -> None:
    parser.add_argument("tpa_id", help="the agreement; ebMS 2.0: its CPAId")
    parser.add_argument("conversation", help="the ConversationId")
    parser.add_argument("--partner", help="its partner, if several have this TPAId")


def _find_conversation(command: MshCommand, options: Options) -> Target:
    whose = command.partner(options["partner"]) if options["partner"] else None
    agreement = change_conversation.find_agreement(options["tpa_id"], whose)
    named = {"tpa_id": options["tpa_id"], "conversation": options["conversation"]}
    about = {**named, "partner": agreement.partner.name}
    name = f"conversation {options['conversation']}"
    return Target([agreement, options["conversation"]], about, name)


def _row(model: type[Model], name: str, listed: str) -> Finding:
    """One that is named by its number, as a command lists it."""
    noun = str(model._meta.verbose_name)  # noqa: SLF001  public

    def add(parser: ArgumentParser) -> None:
        parser.add_argument(name, type=int, help=f"number as listed by `{listed}`")

    def find(command: MshCommand, options: Options) -> Target:
        row = model._default_manager.filter(pk=options[name]).first()  # noqa: SLF001  public
        if row is None:
            raise CommandError(f"There is no {noun} {options[name]}.")
        return Target([row], {name: row.pk}, "")

    return Finding(add, find)


PARTNER = Finding(_add_partner, _find_partner)
LINK = Finding(_add_flight, _find_partner)
REFUSAL = Finding(_add_refusal, _find_refusal)
MESSAGE = Finding(_add_message, _find_message)
CONVERSATION = Finding(_add_conversation, _find_conversation)
JOB = _row(BulkJob, "job", "jobs")
WINDOW = _row(MaintenanceWindow, "window", "maintenance")


# --- the commands ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """`action` or, of a command that has --direction, one for each. `on_message`: what is done
    instead if --message names one. `needs_reason`: --reason is required."""

    action: OperatorAction
    finding: Finding
    by_direction: Mapping[str, OperatorAction] = field(default_factory=dict)
    on_message: OperatorAction | None = None
    needs_reason: bool = True


class ActionCommand(MshCommand):
    declared: ClassVar[Declared]

    @property
    def help(self) -> str:  # type: ignore[override]
        return self.declared.action.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        declared = self.declared
        declared.finding.add_arguments(parser)
        for parameter in declared.action.parameters:
            add_parameter(parser, parameter)
        if declared.by_direction:
            parser.add_argument("--direction", required=True, choices=list(declared.by_direction))
        add_reason(parser, required=declared.needs_reason)
        if declared.action.second_person:
            add_alone(parser)

    def handle(self, *args: object, **options: Any) -> None:
        try:
            action, target = self._chosen(options)
            given = values_of(action.parameters, options)
            done = action.do(*target.parts, actor=actor_of(options), **given)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {**target.answer, **done.facts, "text": done.sentence}
        self.answer(answer, done.said_of(target.name))

    def _chosen(self, options: Options) -> tuple[OperatorAction, Target]:
        """Raises NotPossible and CommandError."""
        declared = self.declared
        target = declared.finding.find(self, options)
        if declared.on_message and options["message"]:
            message = cancel.find(options["message"], *target.parts)
            about = {**target.answer, "message_id": message.message_id}
            return declared.on_message, Target([message], about, f"message {message}")
        return declared.by_direction.get(options.get("direction", ""), declared.action), target


def _named(declared: Declared) -> type[ActionCommand]:
    return type("Command", (ActionCommand,), {"declared": declared})


_DECLARED = [
    Declared(link_actions.SUSPEND, LINK, on_message=actions.SUSPEND_MESSAGE),
    Declared(link_actions.RESUME, LINK, on_message=actions.RESUME_MESSAGE),
    Declared(link_actions.SEND_NOW, LINK, on_message=actions.SEND_NOW_MESSAGE),
    Declared(link_actions.RESET_RETRIES, LINK, on_message=actions.RESET_RETRIES_MESSAGE),
    Declared(link_actions.RESET_SEQUENCE, PARTNER),
    Declared(link_actions.ALLOW_RESET, PARTNER),
    Declared(link_actions.EXPECT, PARTNER),
    Declared(
        link_actions.SET_LAST_NUMBER_OUT,
        PARTNER,
        {"in": link_actions.SET_LAST_NUMBER_IN, "out": link_actions.SET_LAST_NUMBER_OUT},
    ),
    Declared(link_actions.PLAN_MAINTENANCE, PARTNER),
    Declared(actions.CANCEL, MESSAGE),
    Declared(actions.SUBMIT_AGAIN, MESSAGE),
    Declared(actions.TAKE_BACK_REFUSAL, REFUSAL),
    Declared(
        conversations.START_ORDER_OUT,
        CONVERSATION,
        {"in": conversations.START_ORDER_IN, "out": conversations.START_ORDER_OUT},
        needs_reason=False,
    ),
    Declared(conversations.RESTART_CONVERSATION, CONVERSATION),
    Declared(conversations.SKIP_MISSING, CONVERSATION),
    Declared(conversations.DROP_HELD, CONVERSATION),
    Declared(conversations.EXTEND_WAIT, CONVERSATION),
]
COMMANDS = {
    **{one.action.hyphenated: _named(one) for one in _DECLARED},
    "cancel-job": _named(Declared(actions.CANCEL_JOB, JOB)),
    "end-maintenance": _named(Declared(actions.END_MAINTENANCE, WINDOW)),
}
