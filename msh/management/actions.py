"""What the commands share that are an operator's action on one partner."""

import getpass
from argparse import ArgumentParser
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel, change_conversation, change_flight, change_link
from msh.flows.operations.operator_action import (
    VERDICT,
    OperatorAction,
    Parameter,
    PlainLinkAction,
)
from msh.management.cli import MshCommand, NameCommand, reason
from msh.models import OutboundMessage
from msh.protocol.four_eyes import Alone
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from partners.models import Agreement, Partner


def actor_of(options: dict[str, Any]) -> Actor:
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


def require_reason(options: Mapping[str, object]) -> None:
    """Of a command that needs none for `--dry-run`. Raises CommandError."""
    if not options["reason"]:
        raise CommandError(
            "A reason is required, unless with --dry-run: it is recorded in the history. Give it"
            " with --reason."
        )


def moment(text: str) -> datetime:
    """A time as `links --json` gives it; without a zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class ConversationCommand(MshCommand):
    """An action on one conversation: TPA_ID CONVERSATION, and the parameters of the action."""

    action: ClassVar[OperatorAction]
    has_to_say_why = True

    @property
    def help(self) -> str:  # type: ignore[override]
        return self.action.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("tpa_id", help="the agreement; ebMS 2.0: its CPAId")
        parser.add_argument("conversation", help="the ConversationId")
        parser.add_argument("--partner", help="its partner, if several have this TPAId")
        for parameter in self.action.parameters:
            add_parameter(parser, parameter)
        add_reason(parser, required=self.has_to_say_why)
        if self.action.second_person:
            add_alone(parser)

    def handle(
        self, *args: object, tpa_id: str, conversation: str, partner: str | None, **options: object
    ) -> None:
        try:
            whose = self.partner(partner) if partner else None
            agreement = change_conversation.find_agreement(tpa_id, whose)
            answer, text = self.act(agreement, conversation, actor_of(options), options)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        about = {"tpa_id": tpa_id, "partner": agreement.partner.name, "conversation": conversation}
        text = f"conversation {conversation}: {text}"
        self.answer({**about, **answer}, text)

    def act(
        self, agreement: Agreement, conversation: str, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        """Do it; the answer in JSON, and for a person. Raises NotPossible."""
        raise NotImplementedError


def add_parameter(parser: ArgumentParser, parameter: Parameter, *, required: bool = True) -> None:
    """As an option. The flow checks the limits of a number, and says what they are."""
    parser.add_argument(
        f"--{parameter.name}",
        required=required,
        help=parameter.help,
        choices=parameter.choices or None,
        type=str if parameter.minimum is None else int,
    )


class ActionCommand(NameCommand):
    """An action on one partner: NAME --reason TEXT, and the parameters of the action."""

    action: ClassVar[OperatorAction]
    has_to_say_why = True

    @property
    def help(self) -> str:  # type: ignore[override]
        return self.action.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        self.add_parameters(parser)
        add_reason(parser, required=self.has_to_say_why)
        if self.action.second_person:
            add_alone(parser)

    def add_parameters(self, parser: ArgumentParser) -> None:
        for parameter in self.action.parameters:
            add_parameter(parser, parameter)

    def handle(self, *args: object, name: str, **options: object) -> None:
        try:
            answer, text = self.act(self.partner(name), actor_of(options), options)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        self.answer({"partner": name, **answer}, f"{name}: {text}")

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        """Do it; the answer in JSON, and for a person. Raises NotPossible."""
        raise NotImplementedError


class VerdictCommand(MshCommand):
    """An action on one message: MESSAGE_ID --reason TEXT, with a verdict on the one in flight."""

    action: ClassVar[OperatorAction]

    @property
    def help(self) -> str:  # type: ignore[override]
        return self.action.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")
        parser.add_argument("--partner", help="its partner, if several have this MessageId")
        add_parameter(parser, VERDICT, required=False)
        add_reason(parser)
        add_alone(parser)

    def handle(self, *args: object, message_id: str, verdict: str | None, **options: Any) -> None:
        name = options["partner"]
        actor = actor_of(options)
        try:
            message = cancel.find(message_id, self.partner(name) if name else None)
            answer, text = self.act(message, Verdict(verdict) if verdict else None, actor)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        about = {"message_id": message.message_id, "partner": message.link.partner.name}
        self.answer({**about, **answer}, f"{message_id}: {text}")

    def act(
        self, message: OutboundMessage, verdict: Verdict | None, actor: Actor
    ) -> tuple[dict[str, object], str]:
        """Do it; the answer in JSON, and for a person. Raises NotPossible."""
        raise NotImplementedError


class ReceivingCommand(ConversationCommand):
    """An action on one conversation that we receive in order."""

    def act(
        self, agreement: Agreement, conversation: str, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        done = self.action.flow(agreement, conversation, actor=actor)
        answer = {"direction": "in", "next_number": done.next_number, "held": done.held}
        return answer, f"{self.action.done}. {done.text}."


class LinkCommand(ActionCommand):
    """An action on the link to a partner, and what must be so still."""

    action: ClassVar[PlainLinkAction]
    done = ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        if self.action.name in change_flight.VERBS:
            parser.add_argument(
                "--message",
                metavar="ID",
                help="act on this message alone (ebMS 2.0)",
            )
        parser.add_argument(
            "--if-message",
            metavar="ID",
            help="precondition: this message is in flight (links --json: in_flight); '': none",
        )
        parser.add_argument(
            "--if-suspended-since",
            metavar="TIME",
            type=moment,
            help="precondition: suspended since this time (links --json: suspended_since)",
        )

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        if message_id := options.get("message"):
            return _act_on_flight(self.action.name, partner, message_id, actor)
        seen = change_link.Seen(options["if_message"], options["if_suspended_since"])
        done = self.action.flow(partner, actor, seen)
        text = ": ".join(part for part in (self.done, done.text) if part)
        return {"state": done.state, "text": done.text}, f"{text}. Its link is {done.state}."


def _act_on_flight(
    name: str, partner: Partner, message_id: str, actor: Actor
) -> tuple[dict[str, object], str]:
    done = change_flight.VERBS[name](cancel.find(message_id, partner), actor)
    answer: dict[str, object] = {
        "message_id": message_id,
        "state": done.state,
        "text": done.text,
    }
    return answer, f"message {message_id} is {done.state}: {done.text}."
