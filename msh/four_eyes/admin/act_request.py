"""Requests for a second person: list, and the page of one."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.actions import ActionDialog, Offer, ReasonForm
from msh.admin.framework.filters import WordsFilter
from msh.admin.framework.headline import ALARM, Headline
from msh.admin.framework.pages import LargeTableAdmin
from msh.admin.framework.permitted import whom_to_ask
from msh.four_eyes.flows import request_actions
from msh.four_eyes.flows.acts import ACTS
from msh.four_eyes.flows.requests import CONFIRM_PERMISSION, may_confirm
from msh.models import ActRequest, RequestState
from msh.store.history import Actor

_VARIANTS = {"open": "warning", "confirmed": "success", "refused": "danger"}


class RequestDialog(ActionDialog[ActRequest]):
    def why_not(self, row: ActRequest) -> str:
        state = state_of(row)
        return "" if state == RequestState.OPEN else f"the request is {state}."

    def act(self, row: ActRequest, actor: Actor, form: ReasonForm) -> str:
        done = self.action.flow(row.pk, actor)
        return done or self.action.done


class Confirm(RequestDialog):
    action = request_actions.CONFIRM
    icon = "check"
    recommended = True

    def consequence(self, row: ActRequest) -> str:
        return (
            f"{row.asked_by} asks for this: {row.text} It is done now, exactly as requested,"
            " unless something has changed since. The history names both of you. Check it as if"
            " you did it yourself."
        )


class Refuse(RequestDialog):
    action = request_actions.REFUSE
    icon = "block"


class Withdraw(RequestDialog):
    action = request_actions.WITHDRAW
    icon = "delete"


CONFIRM, REFUSE, WITHDRAW = Confirm(), Refuse(), Withdraw()


@admin.register(ActRequest)
class ActRequestAdmin(LargeTableAdmin[ActRequest]):
    list_display = ("what", "asked_by", "reason_given", "status", "asked", "second")
    list_filter = (("state", WordsFilter),)
    list_select_related = ("partner",)
    operator_actions = (CONFIRM, REFUSE, WITHDRAW)
    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None
    without_fields = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[ActRequest]:
        rows: QuerySet[ActRequest] = super().get_queryset(request)
        return rows.select_related("partner")

    def offers(self, request: HttpRequest, row: ActRequest, actions: Any = None) -> list[Offer]:
        """Offer only what this user may decide; the flow asks again."""
        name = request.user.get_username()
        own = name == row.asked_by
        fit = [WITHDRAW] if own else [CONFIRM, REFUSE] if may_confirm(row, name) else []
        return super().offers(request, row, fit)

    def withheld(
        self, request: HttpRequest, row: ActRequest, actions: Any = None, but_for: object = None
    ) -> Sequence[str]:
        """Its advice says it."""
        return ()

    def page_context(self, request: HttpRequest, row: ActRequest) -> dict[str, object]:
        return {"headline": _headline(row, request)}

    @display(description="What")
    def what(self, row: ActRequest) -> str:
        return markup.in_words(capfirst(row.text))

    @display(description="Reason")
    def reason_given(self, row: ActRequest) -> str:
        return markup.in_words(row.reason)

    @display(description="State")
    def status(self, row: ActRequest) -> str:
        return _badge(row)

    @display(description="Requested")
    def asked(self, row: ActRequest) -> str:
        return markup.time_and_age(row.asked_at)

    @display(description="Second person")
    def second(self, row: ActRequest) -> str:
        return "none: done alone" if was_alone(row) else row.decided_by or markup.DASH


def state_of(row: ActRequest) -> str:
    is_open = row.state == RequestState.OPEN
    return "lapsed" if is_open and row.until <= timezone.now() else row.state


def was_alone(row: ActRequest) -> bool:
    return row.state == RequestState.CONFIRMED and row.decided_by == row.asked_by


def _badge(row: ActRequest) -> str:
    state = "done alone" if was_alone(row) else state_of(row)
    return markup.badge(state, _VARIANTS.get(state, "danger" if was_alone(row) else ""))


def _headline(row: ActRequest, request: HttpRequest) -> Headline:
    is_open = state_of(row) == RequestState.OPEN
    return Headline(
        badge=_badge(row),
        sentence=f"{ACTS[row.act].title}: {markup.escape_invisible(row.text)}",
        advice=_advice(row, request) if is_open else "",
        tone=ALARM if is_open else "",
        facts=[
            ("Requested by", row.asked_by),
            ("Reason", markup.in_words(row.reason)),
            ("Partner", markup.link_to(row.partner) if row.partner else ""),
            ("Message", markup.trace_link(row.message_id)),
            ("State when it was requested", markup.in_words(row.facts)),
            ("Requested", markup.time_of(row.asked_at)),
            ("Expires", markup.time_of(row.until)),
            ("Second person", "nobody" if was_alone(row) else row.decided_by),
            (
                ("Reason to go ahead alone") if was_alone(row) else "Answer",
                markup.in_words(row.words),
            ),
            ("Decided", markup.time_of(row.decided_at)),
            ("Started", markup.time_of(row.started_at)),
            ("Ended", markup.time_of(row.ended_at)),
            ("Outcome", markup.in_words(row.outcome)),
        ],
    )


def _advice(row: ActRequest, request: HttpRequest) -> str:
    name = request.user.get_username()
    if name == row.asked_by:
        return "Somebody else must confirm it. Tell them yourself: nobody is notified."
    if may_confirm(row, name):
        return "Check it as if you did it yourself, then confirm or refuse it."
    needed = (CONFIRM_PERMISSION, *ACTS[row.act].permissions)
    return whom_to_ask(request, needed, "confirm it")
