from django.urls import path, re_path, register_converter
from django.urls.converters import StringConverter
from drf_spectacular.views import SpectacularSwaggerSplitView

from msh.api import (
    configuration,
    conversations,
    deliveries,
    document,
    events,
    inbound,
    jobs,
    links,
    message_actions,
    messages,
    problem_types,
    refusals,
    row_actions,
    token,
)
from msh.api.bulk import BulkView
from msh.api.framework import problems
from msh.extension import modules_of_features


class MessageIdConverter:
    """A MessageId may hold slashes, and no NUL: an encoded slash comes as one (`EncodedSlashes`).
    One that is not encoded is a part of it where no other path fits."""

    regex = r".+"

    def to_python(self, value: str) -> str:
        return value.replace("\0", "/")

    def to_url(self, value: str) -> str:
        return value


class MessageActionConverter(StringConverter):
    regex = "|".join(message_actions.MESSAGE_ACTIONS)


register_converter(MessageIdConverter, "message_id")
register_converter(MessageActionConverter, "message_action")

app_name = "api"
urlpatterns = [
    path("schema", document.schema, name="schema"),
    path("docs", SpectacularSwaggerSplitView.as_view(url_name="api:schema"), name="docs"),
    path("problems", problem_types.page, name="problems"),
    path("v1/configuration", configuration.ConfigurationView.as_view()),
    path("v1/token", token.TokenView.as_view()),
    path("v1/messages", messages.MessagesView.as_view()),
    path("v1/messages/bulk", BulkView.as_view()),
    path("v1/message-marks", messages.MessageMarksView.as_view()),
    path("v1/messages/<message_id:message_id>/history", messages.HistoryView.as_view()),
    path(
        "v1/messages/<message_id:message_id>/payloads/<int:number>", messages.PayloadView.as_view()
    ),
    path(
        "v1/messages/<message_id:message_id>/<message_action:action>",
        message_actions.MessageActionView.as_view(),
    ),
    path("v1/messages/<message_id:message_id>", messages.MessageView.as_view()),
    path("v1/events", events.EventsView.as_view()),
    path("v1/events/marks", events.EventMarksView.as_view()),
    path("v1/events/positions", events.EventPositionsView.as_view()),
    path("v1/inbound", inbound.FeedView.as_view()),
    path("v1/inbound/marks", inbound.FeedMarksView.as_view()),
    path("v1/inbound/positions", inbound.PositionsView.as_view()),
    path("v1/inbound/<int:id>/payloads/<int:number>", inbound.PayloadView.as_view()),
    path("v1/deliveries/take", deliveries.TakeView.as_view()),
    path("v1/deliveries/<int:id>/settle", deliveries.SettleView.as_view()),
    path("v1/replays", jobs.ReplaysView.as_view()),
    path("v1/submissions-again", jobs.SubmitAgainView.as_view()),
    path("v1/resumptions", jobs.ResumeMessagesView.as_view()),
    path("v1/links", links.LINKS.as_view()),
    path("v1/links/<int:id>", links.LINK_ROW.as_view()),
    path("v1/links/<int:id>/history", links.LinkHistoryView.as_view()),
    *(
        path(f"v1/conversations/{direction}", view.as_view())
        for direction, view in conversations.CONVERSATIONS.items()
    ),
    path("v1/links/<int:id>/queue", jobs.QueueView.as_view()),
    path("v1/maintenance", links.WINDOWS.as_view()),
    path("v1/maintenance/<int:id>", links.WINDOW_ROW.as_view()),
    path("v1/jobs", jobs.JOBS.as_view()),
    path("v1/jobs/<int:id>", jobs.JobView.as_view()),
    path("v1/jobs/<int:id>/rows", jobs.JobRowsView.as_view()),
    path("v1/incidents", links.INCIDENTS.as_view()),
    path("v1/incidents/<int:id>", links.INCIDENT_ROW.as_view()),
    path("v1/refusals", refusals.REFUSALS.as_view()),
    *(
        path(f"v1/{declared.path}", row_actions.view_of(declared).as_view())
        for declared in row_actions.API_ACTIONS
    ),
    *(pattern for urls in modules_of_features("api_urls") for pattern in urls.urlpatterns),
    re_path("", problems.not_found),
]
