"""`configuration`: partners, agreements and routes, as `manage.py setup` takes them."""

from collections.abc import Sequence

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.operations import configure
from msh.models import Scope
from partners import export, setup

from . import schema
from .framework.parsers import JsonParser
from .framework.problems import PreconditionFailed, Refused
from .framework.query import Form, text, validated_body, validated_query
from .framework.tags import ANY, ETAG, IF_MATCH, tags_shown
from .framework.view import ApiView, actor
from .row_actions import Reason


class ConfigurationQuery(Form):
    partner = text(help_text="Of this partner only, without what is of none.")


class ConfigurationDocument(Form):
    """As docs/running.md describes it. Without secrets."""

    msh_uri = serializers.CharField(required=False, help_text="Our own MSH URI.")
    error_uri = serializers.CharField(required=False)
    partners = serializers.ListField(
        child=serializers.DictField(), help_text="Each with its agreements."
    )
    routes = serializers.ListField(child=serializers.DictField(), required=False)


class ConfigurationChange(Reason):
    document = serializers.DictField(
        help_text="What is added and updated; what it does not name stays. Secrets may be in it."
    )
    dry_run = serializers.BooleanField(default=False, help_text="true: nothing is changed.")


class ObjectChange(Form):
    thing = serializers.CharField()
    what = serializers.ChoiceField(("added", "updated", "removed", "unchanged"))
    fields = serializers.ListField(  # type: ignore[assignment]  # its metaclass takes it away
        child=serializers.CharField(), help_text="Which were updated."
    )


class ConfigurationReport(Form):
    changes = ObjectChange(many=True)
    diff = serializers.ListField(
        child=serializers.CharField(), help_text="dry_run: the lines that would change."
    )


class SetupProblems(Refused):
    """The document is refused as a whole."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("document", "\n".join(problems))
        self.facts = {"problems": list(problems)}


class ConfigurationView(ApiView):
    scopes = {"GET": Scope.OPERATE, "POST": Scope.OPERATE}
    parser_classes = [JsonParser]
    takes_tags = True

    def body_limit(self) -> int:
        return configure.DOCUMENT_LIMIT

    @extend_schema(
        operation_id="get_configuration",
        parameters=[ConfigurationQuery, ETAG],
        responses={200: ConfigurationDocument, **schema.problems(400, 404)},
    )
    def get(self, request: Request) -> Response:
        """Partners with their agreements and channels, and routes, without secrets. The ETag is
        that of the whole configuration."""
        query = validated_query(request, ConfigurationQuery)
        _require(request, configure.EXPORT_PERMISSIONS)
        document = export.exported()
        tag = export.digest_of(document)
        if "partner" in query:
            of_it = [one for one in document["partners"] if one["name"] == query["partner"]]
            if not of_it:
                raise NotFound(f"There is no partner {query['partner']!r}.")
            document = {"partners": of_it}
        return Response(document, headers={"ETag": f'"{tag}"'})

    @extend_schema(
        operation_id="change_configuration",
        parameters=[IF_MATCH],
        request=ConfigurationChange,
        responses={200: ConfigurationReport, **schema.problems(400, 411, 412, 413, 415, 422)},
    )
    def post(self, request: Request) -> Response:
        """Add and update partners, agreements, channels and routes: all of the document, or nothing
        of it. The same document again changes nothing."""
        body = validated_body(request, ConfigurationChange)
        _require(request, configure.IMPORT_PERMISSIONS)
        document, tags = body["document"], tags_shown(request)
        try:
            if body["dry_run"]:
                shown = export.preview(document)
                _compare(tags, shown.seen)
                return Response({**shown.report.as_json(), "diff": shown.diff})
            seen = _compare(tags, export.digest()) if tags else ""
            report = configure.apply(document, actor(request, body["reason"]), seen)
        except setup.SetupRefused as refused:
            raise SetupProblems(refused.problems) from None
        except configure.ChangedMeanwhile:
            raise _changed() from None
        return Response({**report.as_json(), "diff": []})


def _require(request: Request, permissions: Sequence[str]) -> None:
    lacking = [name for name in permissions if not request.user.has_perm(name)]
    if lacking:
        user = request.user.get_username()
        raise PermissionDenied(f"User {user} lacks {', '.join(lacking)}: ask an administrator.")


def _compare(tags: Sequence[str], current: str) -> str:
    """The tag that is compared again when nobody else can write; empty if any will do."""
    if tags and ANY not in tags and current not in tags:
        raise _changed()
    return "" if ANY in tags else current


def _changed() -> PreconditionFailed:
    detail = "The configuration has changed since it was read: read it again."
    return PreconditionFailed("If-Match", detail)
