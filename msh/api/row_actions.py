"""An operator's action on one row, by its id: `POST .../ID/ACTION` with a reason. The views with
their forms are made from the declarations of the actions; API_ACTIONS has those that programs need.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import actions, link_actions
from msh.flows.operations import conversation_actions as conversations
from msh.flows.operations.operator_action import Done, OperatorAction, Parameter
from msh.flows.operations.unchanged import as_seen
from msh.models import (
    BulkJob,
    Delivery,
    InboundConversation,
    Incident,
    MaintenanceWindow,
    OutboundConversation,
    OutboundLink,
    Scope,
    Signal,
    SignalKind,
)
from msh.protocol.flight import serial

from . import schema
from .documents import (
    INCIDENT,
    LINK_SEEN,
    LINK_STATES,
    NEXT_NUMBER,
    WINDOW,
    IncidentDocument,
    JobDocument,
    WindowDocument,
)
from .framework.access import require_permissions, within
from .framework.parsers import JsonParser
from .framework.query import Column, Form, moment, text, validated_body
from .framework.tags import IF_MATCH, is_tagged, tags_shown
from .framework.view import ApiView, actor, created

REASON_LIMIT = 500  # characters
REFUSALS = (400, 404, 409, 411, 413, 415, 422)


# --- forms ----------------------------------------------------------------------------------------


class Reason(Form):
    reason = serializers.CharField(
        max_length=REASON_LIMIT, help_text="Recorded in the history with the user of the token."
    )


class AloneForm(Reason):
    alone = serializers.CharField(
        required=False,
        max_length=REASON_LIMIT,
        allow_blank=True,
        help_text="If a second person must confirm it (MSH_SECOND_PERSON): the reason to go ahead"
        " without one. Requires MSH_ACT_ALONE and the permission.",
    )


class _UuidText(serializers.UUIDField):
    """DRF's takes numbers too, and `true` is 1: two requests with it would be one."""

    def to_internal_value(self, data: object) -> UUID:
        if not isinstance(data, str):
            self.fail("invalid", value=data)
        return super().to_internal_value(data)


def field_of(parameter: Parameter) -> serializers.Field[Any, Any, Any, Any]:
    """The field of a form, with the limits that the action declares."""
    kind, required = parameter.kind, parameter.required
    if kind is int:
        return serializers.IntegerField(
            required=required,
            min_value=parameter.minimum,
            max_value=parameter.maximum,
            help_text=parameter.help,
        )
    if kind is datetime:
        return moment(parameter.help, required=required)
    if kind is bool:
        return serializers.BooleanField(default=False, help_text=parameter.help)
    if kind is UUID:
        return _UuidText(required=required, help_text=parameter.help)
    return text(allow_blank=True, help_text=parameter.help)


def form_of(name: str, action: OperatorAction) -> type[Form]:
    """The reason and the parameters of the action."""
    fields = {one.name: field_of(one) for one in action.parameters}
    return type(name, (AloneForm if action.second_person else Reason,), fields)


# --- documents ------------------------------------------------------------------------------------


class LinkStateDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    state = serializers.ChoiceField(LINK_STATES)
    text = serializers.CharField(help_text="What was done and what happens next.")


class ConversationStateDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    tpa_id = serializers.CharField()
    conversation_id = serializers.CharField()
    next_number = serializers.IntegerField(help_text=NEXT_NUMBER)
    text = serializers.CharField(help_text="What was done, and what comes next.")


class TakenBackDocument(Form):
    id = serializers.IntegerField()
    partner = serializers.CharField()
    message_id = serializers.CharField()
    refused = serializers.CharField(help_text="What the Error said.")
    text = serializers.CharField(help_text="What happens next.")


class AskedDocument(Form):
    request = serializers.IntegerField(help_text="The number of the request.")
    until = serializers.DateTimeField(help_text="When it lapses.")
    text = serializers.CharField()


ASKED = OpenApiResponse(AskedDocument, "Not done: a second person must confirm it.")


# --- views ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiAction:
    """One action at one address: `path`, and `name` of the operation in the OpenAPI
    document. `rows`: with what the flow or the answer needs of other tables.

    The answer is a `document` of what `answer` makes of the row and of what was done; without it,
    of the row as it is then; if it `begins` something, of the row that the flow has made, with
    status 201 and its address in the list that `begins` names. `seen`: the columns that an If-Match
    speaks for; without them none is taken.
    """

    name: str
    path: str
    action: OperatorAction
    rows: QuerySet[Any]
    document: type[serializers.BaseSerializer[Any]]
    answer: Callable[[Any, Done], Mapping[str, object]] | None = None
    begins: str = ""
    seen: Mapping[str, Column] | None = None
    partner: str = "partner"
    """The path to the partner of a row."""

    def answer_of(self, row: Any, done: Done) -> Any:
        if self.answer is not None:
            return self.answer(row, done)
        shown = done.returned if self.begins else row
        shown.refresh_from_db()
        return shown


class RowActionView(ApiView):
    """Requires the permissions of the action, reads the form, finds the row, calls the flow, and
    answers with the document."""

    scopes = {"POST": Scope.OPERATE}
    narrows = True
    parser_classes = [JsonParser]
    declared: ClassVar[ApiAction]
    form: ClassVar[type[Form]]

    def post(self, request: Request, id: int) -> Response:  # noqa: A002
        action = self.declared.action
        require_permissions(request, *action.permissions)
        form = validated_body(request, self.form)
        by = actor(request, form.pop("reason"), form.pop("alone", ""))
        rows = within(request, self.declared.rows.all(), self.declared.partner)
        row = get_object_or_404(rows, pk=id)
        tags = tags_shown(request)
        is_seen = partial(is_tagged, row, self.declared.seen or {}, tags)
        with as_seen(row, is_seen) if tags else nullcontext():
            done = action.do(*action.subject.parts(row), actor=by, **form)
        shown = self.declared.answer_of(row, done)
        document = self.declared.document(shown).data
        if self.declared.begins:
            return created(document, self.declared.begins, shown.pk)
        return Response(document)


def view_of(declared: ApiAction) -> type[RowActionView]:
    """Make the view of an action, with its part of the OpenAPI document."""
    name = "".join(word.capitalize() for word in declared.name.split("_"))
    form = form_of(f"{name}Form", declared.action)
    takes_tags = declared.seen is not None
    parts = {"declared": declared, "form": form, "takes_tags": takes_tags}
    asks = {202: ASKED} if declared.action.second_person else {}
    refusals = (*REFUSALS, 412) if takes_tags else REFUSALS
    done = {201 if declared.begins else 200: declared.document}
    documented = extend_schema(
        operation_id=declared.name,
        description=declared.action.summary,
        parameters=[IF_MATCH] if takes_tags else [],
        request=form,
        responses={**done, **asks, **schema.problems(*refusals)},
    )
    return extend_schema_view(post=documented)(type(f"{name}View", (RowActionView,), parts))


# --- what programs can do -------------------------------------------------------------------------


def _link(row: OutboundLink, done: Done) -> Mapping[str, object]:
    return {"id": row.pk, "partner": row.partner.name, **done.facts, "text": done.sentence}


def _conversation(
    row: OutboundConversation | InboundConversation, done: Done
) -> Mapping[str, object]:
    row.refresh_from_db(fields=["next_number"])
    return {
        "id": row.pk,
        "partner": row.agreement.partner.name,
        "tpa_id": row.agreement.tpa_id,
        "conversation_id": row.conversation_id,
        "next_number": row.next_number or serial.FIRST,
        "text": done.sentence,
    }


def _refusal(row: Signal, done: Done) -> Mapping[str, object]:
    about = {"partner": row.link.partner.name, "message_id": row.ref_to_message_id}
    return {"id": row.pk, **about, **done.facts, "text": done.sentence}


_LINKS = OutboundLink.objects.select_related("partner")
_REFUSALS = Signal.objects.filter(kind=SignalKind.ERROR).select_related("link__partner")


def _on_link(name: str, action: OperatorAction) -> ApiAction:
    path = f"links/<int:id>/{action.hyphenated}"
    return ApiAction(name, path, action, _LINKS, LinkStateDocument, answer=_link, seen=LINK_SEEN)


def _on_conversation(verb: str, direction: str, action: OperatorAction) -> ApiAction:
    model = OutboundConversation if direction == "out" else InboundConversation
    return ApiAction(
        f"{verb}_{direction}bound_conversation",
        f"conversations/{direction}/<int:id>/{action.hyphenated}",
        action,
        model.objects.select_related("agreement__partner"),
        ConversationStateDocument,
        _conversation,
        partner="link__partner",
    )


API_ACTIONS = (
    _on_link("suspend_link", link_actions.SUSPEND),
    _on_link("resume_link", link_actions.RESUME),
    _on_link("send_link_now", link_actions.SEND_NOW),
    ApiAction(
        "plan_maintenance",
        "links/<int:id>/plan-maintenance",
        link_actions.PLAN_MAINTENANCE,
        _LINKS,
        WindowDocument,
        begins="maintenance",
        seen=LINK_SEEN,
    ),
    ApiAction(
        "cancel_queue",
        "links/<int:id>/cancel-queue",
        link_actions.CANCEL_QUEUE,
        _LINKS,
        JobDocument,
        begins="jobs",
        seen=LINK_SEEN,
    ),
    _on_conversation("restart", "out", conversations.RESTART_CONVERSATION),
    _on_conversation("start_order_of", "out", conversations.START_ORDER_OUT),
    _on_conversation("extend_wait_of", "in", conversations.EXTEND_WAIT),
    _on_conversation("skip_missing_of", "in", conversations.SKIP_MISSING),
    _on_conversation("drop_held_of", "in", conversations.DROP_HELD),
    _on_conversation("start_order_of", "in", conversations.START_ORDER_IN),
    ApiAction(
        "replay_delivery",
        "deliveries/<int:id>/replay",
        actions.REPLAY,
        Delivery.objects.select_related("message__link"),
        JobDocument,
        begins="jobs",
        partner="message__link__partner",
    ),
    ApiAction(
        "end_maintenance",
        "maintenance/<int:id>/end",
        actions.END_MAINTENANCE,
        MaintenanceWindow.objects.select_related("partner"),
        WindowDocument,
        seen=WINDOW,
    ),
    ApiAction(
        "cancel_job", "jobs/<int:id>/cancel", actions.CANCEL_JOB, BulkJob.objects.all(), JobDocument
    ),
    ApiAction(
        "resolve_incident",
        "incidents/<int:id>/resolve",
        actions.RESOLVE,
        Incident.objects.select_related("partner"),
        IncidentDocument,
        seen=INCIDENT,
    ),
    ApiAction(
        "take_back_refusal",
        "refusals/<int:id>/take-back",
        actions.TAKE_BACK_REFUSAL,
        _REFUSALS,
        TakenBackDocument,
        _refusal,
        partner="link__partner",
    ),
)
