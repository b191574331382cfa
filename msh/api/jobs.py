"""`jobs`: one action on many rows. What begins one: `replays`, `submissions-again` and
`resumptions`; and in `row_actions.py` `links/ID/cancel-queue` and `deliveries/ID/replay`."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import actions
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.bulk_jobs import Limits
from msh.flows.operations.many.cancel_queue import queue_of
from msh.flows.operations.operator_action import CONFIRMATION, OperatorAction
from msh.models import (
    EVER,
    BulkAction,
    BulkItem,
    BulkJob,
    BulkState,
    Consumer,
    OutboundLink,
    Scope,
)
from partners.models import Partner

from . import schema
from .documents import JOB, JOB_ROW, JobDocument, JobRowDocument
from .framework.access import partners_of, require_permissions, within
from .framework.parsers import JsonParser
from .framework.problems import Unreadable
from .framework.query import (
    LARGEST_ID,
    Form,
    PageQuery,
    moment,
    page,
    text,
    validated_body,
    validated_query,
)
from .framework.view import ApiView, actor, created
from .lists import list_view, where
from .row_actions import REFUSALS, Reason, field_of


class JobsQuery(PageQuery):
    state = serializers.ChoiceField(BulkState.choices, required=False)


class JobRowsPage(Form):
    results = JobRowDocument(many=True)
    next = serializers.IntegerField(allow_null=True)


JOBS = list_view(
    "list_jobs",
    "Bulk jobs by id, also those that have ended.",
    JobDocument,
    JobsQuery,
    where(state="state"),
    permission="msh.view_bulkjob",
    rows=BulkJob.objects,
    columns=JOB,
)


def _jobs(request: Request) -> QuerySet[BulkJob]:
    """A job is of a partner if its rows were chosen by the partner."""
    return within(request, BulkJob.objects.all())


class JobView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    narrows = True

    @extend_schema(operation_id="get_job", responses={200: JobDocument, **schema.problems(404)})
    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        """One job: it is done when `state` is not `running`."""
        require_permissions(request, "msh.view_bulkjob")
        return Response(JobDocument(get_object_or_404(_jobs(request), pk=id)).data)


class JobRowsView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    narrows = True

    @extend_schema(
        operation_id="list_job_rows",
        parameters=[PageQuery],
        responses={200: JobRowsPage, **schema.problems(400, 404)},
    )
    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        """The result for each row of a job."""
        require_permissions(request, "msh.view_bulkjob")
        query = validated_query(request, PageQuery)
        job = get_object_or_404(_jobs(request), pk=id)
        return Response(page(BulkItem.objects.filter(job=job), JOB_ROW, query))


class QueueDocument(Form):
    count = serializers.IntegerField(help_text="Messages that a job takes: at most 100,000.")
    later = serializers.IntegerField(help_text="Messages behind them, which stay queued.")
    size = serializers.IntegerField(help_text="Bytes of their payloads.")
    oldest = serializers.DateTimeField(allow_null=True)
    last = serializers.IntegerField(help_text="The number of the last one; 0: none is queued.")


class QueueView(ApiView):
    scopes = {"GET": Scope.OPERATE}
    narrows = True

    @extend_schema(operation_id="get_queue", responses={200: QueueDocument, **schema.problems(404)})
    def get(self, request: Request, id: int) -> Response:  # noqa: A002
        """The messages that `cancel-queue` would cancel now: the oldest 100,000 of the queue."""
        require_permissions(request, "msh.view_outboundlink")
        link = get_object_or_404(within(request, OutboundLink.objects.all()), pk=id)
        return Response(QueueDocument(queue_of(link)).data)


class ReplaysQuery(Form):
    """Which deliveries: those that were completed, of messages received since then."""

    consumer = serializers.SlugField(max_length=63, help_text="Who gets the messages again.")
    since = moment("When they were received; default: any time.")
    partner = text(help_text="The name of one partner.")


class ReplaysDocument(Form):
    count = serializers.IntegerField()
    seen = serializers.CharField(help_text="Identifies this set of rows.")


class ReplaysForm(ReplaysQuery, Reason):
    if_seen = text(help_text="Precondition: `seen` of the GET. 409 if the set has changed since.")
    confirmation = field_of(CONFIRMATION)


class _ChosenRows(ApiView):
    """A job for the rows that a query chooses. A subclass names the bulk action, the action on one
    row, and what the query means."""

    scopes = {"GET": Scope.OPERATE, "POST": Scope.OPERATE}
    narrows = True
    parser_classes = [JsonParser]
    bulk: ClassVar[BulkAction]
    action: ClassVar[OperatorAction]
    query: ClassVar[type[Form]]
    form: ClassVar[type[Form]]

    def limits(self, form: Mapping[str, Any], partner: str) -> Limits:
        """`partner`: the name of the one that is chosen, or empty. Raises Http404."""
        raise NotImplementedError

    def get(self, request: Request) -> Response:
        require_permissions(request, *self.action.permissions)
        query = validated_query(request, self.query)
        rows = bulk_jobs.rows_of(
            self.bulk, query.get("since", EVER), **self._limits(request, query)
        )
        return Response({"count": rows.count(), "seen": bulk_jobs.seen(self.bulk, rows)})

    def post(self, request: Request) -> Response:
        require_permissions(request, *self.action.permissions, "msh.bulk_bulkjob")
        form = validated_body(request, self.form)
        job = bulk_jobs.start(
            self.bulk,
            form.get("since", EVER),
            form.get("if_seen"),
            actor(request, form["reason"]),
            confirmation=form.get("confirmation"),
            **self._limits(request, form),
        )
        job.refresh_from_db()
        return created(JobDocument(job).data, "jobs", job.pk)

    def _limits(self, request: Request, form: Mapping[str, Any]) -> Limits:
        partner: str = form.get("partner", "")
        if partner and not within(request, Partner.objects.filter(name=partner), "pk").exists():
            raise Http404(f"No partner {partner!r}.")
        if not partner and partners_of(request) is not None:
            raise Unreadable("partner", "partner: the token is bound to partners; name one")
        return self.limits(form, partner)


ChosenT = TypeVar("ChosenT", bound=_ChosenRows)


def _chosen_rows(what: str, view: type[ChosenT]) -> type[ChosenT]:
    """The view with its part of the OpenAPI document. `what`: its name in operation ids."""
    return extend_schema_view(
        get=extend_schema(
            operation_id=f"count_{what}",
            description="How many rows a POST with the same values would take.",
            parameters=[view.query],
            responses={200: ReplaysDocument, **schema.problems(400, 404)},
        ),
        post=extend_schema(
            operation_id=f"begin_{what}",
            description=view.__doc__,
            request=view.form,
            responses={201: JobDocument, **schema.problems(*REFUSALS)},
        ),
    )(view)


@partial(_chosen_rows, "replays")
class ReplaysView(_ChosenRows):
    """Have messages that a consumer has completed delivered to it once more, as replays, by a
    job: those of a pair in the order of acceptance."""

    bulk = BulkAction.REPLAY
    action = actions.REPLAY
    query = ReplaysQuery
    form = ReplaysForm

    def limits(self, form: Mapping[str, Any], partner: str) -> Limits:
        consumer = Consumer.objects.filter(name=form["consumer"]).first()
        if consumer is None:
            raise Http404(f"No consumer {form['consumer']!r}.")
        return {"consumer": consumer.pk, "partner": partner}


class StoppedQuery(Form):
    """Which messages: of one partner, conversation or incident, all together."""

    since = moment("When they failed, or were submitted if they are held; default: any time.")
    partner = text(help_text="The name of one partner.")
    conversation_id = text()
    incident = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=LARGEST_ID,
        help_text="Those that failed for this incident.",
    )


class StoppedForm(StoppedQuery, Reason):
    if_seen = text(help_text="Precondition: `seen` of the GET. 409 if the set has changed since.")
    confirmation = field_of(CONFIRMATION)


class _Stopped(_ChosenRows):
    query = StoppedQuery
    form = StoppedForm

    def limits(self, form: Mapping[str, Any], partner: str) -> Limits:
        return {
            "partner": partner,
            "conversation": form.get("conversation_id", ""),
            "incident": form.get("incident"),
            "spare_copied": self.bulk == BulkAction.SUBMIT_AGAIN,
        }


@partial(_chosen_rows, "submissions_again")
class SubmitAgainView(_Stopped):
    """Submit failed messages again, by a job, oldest first: each as a new message with the same
    payloads. Left out are those of which a copy was submitted already, that stand for a message
    which the partner has, or that stop their conversation."""

    bulk = BulkAction.SUBMIT_AGAIN
    action = actions.SUBMIT_AGAIN


@partial(_chosen_rows, "resumptions")
class ResumeMessagesView(_Stopped):
    """Resume messages that are held or that stop their conversation, by a job: each is sent again
    with the same bytes and MessageId."""

    bulk = BulkAction.RESUME_MESSAGES
    action = actions.RESUME_MESSAGE
