"""The operator's verbs on a link: when each is offered, what its dialog says, what it calls.

Each is an unfold action with a dialog: GET shows the form, only a POST with the CSRF token and
the verb's own permission acts. Who and why go into the history.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm
from unfold.widgets import UnfoldAdminTextareaWidget

from msh.flows import operate
from msh.flows.advance import Actor
from msh.models import OutboundLink
from msh.protocol import sender
from msh.protocol.effects import IncidentKind
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    OperatorResumed,
    OperatorSuspended,
    RetriesReset,
    SenderEvent,
    SendNowRequested,
)
from msh.protocol.lane import LaneState

from .words import moment

REASON_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Verb:
    """`name` is that of its flow and permission; `consequence` tells what it does to this link."""

    name: str
    title: str
    done: str
    icon: str
    variant: ActionVariant
    flow: Callable[..., LaneState]
    event: SenderEvent
    consequence: Callable[[OutboundLink], str]
    form: "type[ReasonForm] | None" = None
    """Its dialog, where that asks for more than the reason."""

    @property
    def url_name(self) -> str:
        return f"admin:msh_outboundlink_{self.name}"

    def is_permitted(self, request: HttpRequest) -> bool:
        """True if this user may use it, on whatever link."""
        needed = ("msh.view_outboundlink", f"msh.{self.name}_outboundlink")
        return request.user.has_perms(needed)

    def is_possible(self, link: OutboundLink) -> bool:
        """True if the Sender's table lets it happen now."""
        try:
            sender.step(link.lane, self.event, now=timezone.now())
        except IllegalTransition:
            return False
        return True


def offered(verbs: Iterable[Verb], link: OutboundLink, request: HttpRequest) -> list[Verb]:
    """Those that are possible now and that this user may use."""
    return [v for v in verbs if v.is_possible(link) and v.is_permitted(request)]


def _suspend(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    waits = (
        f"Message {flying.sequence_number} stays in flight and is not sent again; an"
        " Acknowledgement that still comes is taken."
        if flying
        else "Nothing is in flight."
    )
    return (
        f"Nothing more is sent to {link.partner}. {waits} New messages queue up."
        " Acknowledgements and Errors that we owe still go. This lasts, over restarts too, until"
        " somebody resumes. The partner has nothing to do."
    )


def _resume(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return (
            f"Nothing is in flight to {link.partner}: no message can be doubled. Its queue is sent"
            f" in order, beginning with number {link.next_number}."
        )
    if link.state == LaneState.TRANSIENT:
        return (
            f"The wait that {link.partner} asked for ends: message {flying.sequence_number} is sent"
            " again now, with the same bytes. No retry is spent."
        )
    parted = link.suspended_for == IncidentKind.RESYNCHRONISE
    return (
        f"Message {flying.sequence_number} is sent to {link.partner} again now: same bytes, number"
        f" and MessageId. Its retry counter starts again at 0 of {flying.terms.retries}. Once it"
        " is acknowledged, the queue follows in order. If the partner has stored it already, it"
        " discards the copy and acknowledges again. The incidents of this link are resolved with"
        " your reason."
        + (" The partner said that the numbers have parted: mend that first." if parted else "")
    )


def _reset_retries(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return ""
    return (
        f"The retry counter of message {flying.sequence_number} goes from {flying.retries_spent}"
        f" to 0 of {flying.terms.retries}. Nothing is sent now: the next copy goes when it was"
        f" due, at {moment(link.due, timezone.now())}. The partner has nothing to do."
    )


def _send_now(link: OutboundLink) -> str:
    flying = link.lane.in_flight
    if flying is None:
        return ""
    return (
        f"One more copy of message {flying.sequence_number} goes to {link.partner} at once: same"
        " bytes, number and MessageId. No retry is spent. If the partner has the message already,"
        " it discards the copy and acknowledges again."
    )


RESUME = Verb(
    name="resume",
    title="Resolve and resume",
    done="resumed",
    icon="play_arrow",
    variant=ActionVariant.PRIMARY,
    flow=operate.resume,
    event=OperatorResumed(),
    consequence=_resume,
)
SEND_NOW = Verb(
    name="send_now",
    title="Send now",
    done="one more copy goes at once",
    icon="send",
    variant=ActionVariant.DEFAULT,
    flow=operate.send_now,
    event=SendNowRequested(),
    consequence=_send_now,
)
RESET_RETRIES = Verb(
    name="reset_retries",
    title="Reset retries",
    done="retry counter at 0",
    icon="restart_alt",
    variant=ActionVariant.DEFAULT,
    flow=operate.reset_retries,
    event=RetriesReset(),
    consequence=_reset_retries,
)
SUSPEND = Verb(
    name="suspend",
    title="Suspend",
    done="suspended",
    icon="pause",
    variant=ActionVariant.DEFAULT,
    flow=operate.suspend,
    event=OperatorSuspended(),
    consequence=_suspend,
)
VERBS = (RESUME, SEND_NOW, RESET_RETRIES, SUSPEND)


class ReasonOnlyForm(BaseDialogForm):
    """A dialog that asks for the reason, which is required."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2, "autofocus": True}),
        help_text="Kept in the history with your name.",
    )


class ReasonForm(ReasonOnlyForm):
    """The dialog of a verb: what it will do, and why."""

    form_before_template = "admin/msh/outboundlink/consequence.html"
    verb: ClassVar[Verb]
    given: ClassVar[tuple[str, ...]] = ()
    """The fields that the verb's flow needs besides partner and actor."""

    def get_before_template_context(
        self, request: HttpRequest, object_id: int | str | None = None
    ) -> dict[str, Any]:
        link = find_link(str(object_id))
        possible = self.verb.is_possible(link)
        return {"link": link, "consequence": self.verb.consequence(link) if possible else ""}


def find_link(object_id: str) -> OutboundLink:
    links = OutboundLink.objects.select_related("partner", "in_flight")
    link = links.filter(pk=object_id).first() if object_id.isdecimal() else None
    if link is None:
        raise Http404(f"There is no link {object_id}.")
    return link


def unfold_action(verb: Verb) -> Any:
    """The verb as an action of a ModelAdmin, which must keep it under the verb's name.

    The ModelAdmin says who may, by `has_VERB_permission`: unfold would look for a permission named
    in full in the database, while a new one has no tables yet.
    """

    def act(
        model_admin: Any, request: HttpRequest, form: ReasonForm, object_id: str
    ) -> HttpResponse:
        link = find_link(object_id)
        given = {name: form.cleaned_data[name] for name in form.given}
        actor = Actor(request.user.get_username(), form.cleaned_data["reason"])
        try:
            state = verb.flow(link.partner, actor, **given)
        except operate.NotPossible as refused:
            messages.error(request, str(refused))
        else:
            text = f"Partner {link.partner}: {verb.done}. The link is {state} now."
            messages.success(request, text)
        return _back(request, object_id)

    act.__name__ = verb.name
    return action(
        description=verb.title,
        permissions=[verb.name],
        url_path=verb.name.replace("_", "-"),
        icon=verb.icon,
        variant=verb.variant,
        dialog={
            "title": verb.title,
            "description": "",
            "form_class": type("ReasonForm", (verb.form or ReasonForm,), {"verb": verb}),
            "form_submit_text": verb.title,
        },
    )(act)


def _back(request: HttpRequest, object_id: str) -> HttpResponse:
    """To the page that opened the dialog; without its script, to the link."""
    if "HX-Request" in request.headers:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return HttpResponseRedirect(reverse("admin:msh_outboundlink_change", args=[object_id]))
