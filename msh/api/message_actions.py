"""`messages/ID/ACTION`: what an operator does to one message."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import actions
from msh.flows.operations.operator_action import VERDICT, OperatorAction
from msh.models import SHOWN_STATES, Scope
from msh.protocol.kinds import Verdict

from . import schema
from .documents import ExplainedDocument
from .framework.access import require_permissions
from .framework.parsers import JsonParser
from .framework.problems import Refused
from .framework.query import Form, validated_body
from .framework.view import ApiView, actor
from .messages import WhichQuery, explained, find_message
from .row_actions import ASKED, REFUSALS, AloneForm

MESSAGE_ACTIONS: dict[str, OperatorAction] = {
    action.hyphenated: action
    for action in (*actions.ON_MESSAGE, actions.CANCEL, actions.SUBMIT_AGAIN)
}
"""The actions by the last part of their addresses."""


_ACTION = OpenApiParameter("action", location=OpenApiParameter.PATH, enum=sorted(MESSAGE_ACTIONS))


class MessageActionForm(AloneForm):
    verdict = serializers.ChoiceField(
        VERDICT.choices,
        required=False,
        help_text="For cancel, if a copy of the message may have been sent, and for submit-again,"
        " if the message stops its conversation: did the partner receive it?",
    )


class MessageStateDocument(Form):
    message_id = serializers.CharField()
    partner = serializers.CharField()
    state = serializers.ChoiceField(SHOWN_STATES)
    text = serializers.CharField(help_text="What was done and what happens next.")
    submitted_as = serializers.CharField(
        required=False, help_text="Of submit-again: the MessageId of the new message."
    )


class MessageActionView(ApiView):
    scopes = {"GET": Scope.READ, "POST": Scope.OPERATE}
    narrows = True
    parser_classes = [JsonParser]

    @extend_schema(
        operation_id="get_message_named_as_action",
        parameters=[WhichQuery, _ACTION],
        responses={200: ExplainedDocument, **schema.problems(400, 404)},
    )
    def get(self, request: Request, message_id: str, action: str) -> Response:
        """The message whose MessageId ends as the address of an action does."""
        return explained(request, f"{message_id}/{action}")

    @extend_schema(
        operation_id="act_on_message",
        description="\n\n".join(
            f"`{name}`: {action.summary}" for name, action in MESSAGE_ACTIONS.items()
        ),
        parameters=[WhichQuery, _ACTION],
        request=MessageActionForm,
        responses={
            200: MessageStateDocument,
            202: ASKED,
            # 405: the address with any other action is that of a message whose id has it.
            **schema.problems(405, *REFUSALS),
        },
    )
    def post(self, request: Request, message_id: str, action: str) -> Response:
        chosen = MESSAGE_ACTIONS[action]
        require_permissions(request, *chosen.permissions)
        form = validated_body(request, MessageActionForm)
        if "verdict" in form and VERDICT not in chosen.parameters:
            raise Refused("verdict", f"verdict: {action} takes none; omit it")
        message = find_message(request, message_id)
        by = actor(request, form["reason"], form.get("alone", ""))
        given = {"verdict": Verdict(form["verdict"])} if "verdict" in form else {}
        done = chosen.do(message, actor=by, **given)
        about = {"message_id": message_id, "partner": message.link.partner.name}
        copy = {k: v for k, v in done.facts.items() if k in ("state", "submitted_as")}
        return Response({**about, **copy, "text": done.sentence})
