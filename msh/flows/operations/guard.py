"""The guard before an action that may need a second person. Each flow that does such an action
calls it, so that it holds for console, API, commands and bulk jobs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.utils.timezone import localtime

from msh.extension import ExtensionPoint
from msh.flows.errors import NotPossible, Proposal, SecondPersonNeeded
from msh.models import ActRequest, RequestState
from msh.protocol.four_eyes import (
    Alone,
    Decision,
    NotAllowed,
    Verb,
    decide,
    needs_second_person,
    parse_rules,
)
from msh.store.history import Actor

ALONE_PERMISSION = "msh.act_alone_actrequest"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is stored: its row id, until when it can be confirmed, and what whoever has
    asked is told."""

    request: int
    until: datetime
    text: str


FEATURE = "msh.four_eyes"
"""It keeps the requests. Without it nothing is done that needs a second person."""
asks: ExtensionPoint[Callable[[SecondPersonNeeded], Asked]] = ExtensionPoint()
calls_out: ExtensionPoint[Callable[[Proposal, Actor, str], None]] = ExtensionPoint()
"""Given why somebody goes ahead alone: says so, in the transaction of the act."""


@contextmanager
def allowed(proposal: Proposal, actor: Actor) -> Iterator[None]:
    """Around what writes the act, under its locks and in its transaction.

    Raises SecondPersonNeeded, or NotPossible if it was not confirmed like this; nothing is written
    then. An act that goes ahead alone is called out.
    """
    act, approval = proposal.act, actor.approval
    try:
        decision = decide(
            act,
            approval,
            needed=is_needed(act.verb, actor.name, by_command=actor.by_command),
            may_alone=isinstance(approval, Alone)
            and may_go_alone(actor.name, by_command=actor.by_command),
        )
    except NotAllowed as refused:
        raise NotPossible(str(refused)) from None
    if decision is not Decision.GO and not apps.is_installed(FEATURE):
        raise NotPossible(
            f"This needs a second person, and {FEATURE} is not one of the INSTALLED_APPS: add it,"
            " or take the rule out of MSH_SECOND_PERSON."
        )
    if decision is Decision.ASK:
        raise SecondPersonNeeded(proposal, actor)
    yield
    if decision is Decision.GO_ALONE and isinstance(approval, Alone):
        for call_out in calls_out:
            call_out(proposal, actor, approval.why)


def ask(needed: SecondPersonNeeded) -> Asked:
    """Store the request of an act that was not done."""
    (store,) = asks
    return store(needed)


def is_on() -> bool:
    return bool(settings.MSH_SECOND_PERSON)


def is_needed(verb: Verb, name: str, *, by_command: bool = False) -> bool:
    """Whether the user of this name needs a second person. A command has no user, and a superuser
    has every role: they always do where there is a rule."""
    rules = parse_rules(settings.MSH_SECOND_PERSON)
    if verb not in rules:
        return False
    user = None if by_command else _user(name)
    has_roles = user is not None and not user.is_superuser
    roles = frozenset(user.groups.values_list("name", flat=True)) if user and has_roles else None
    return needs_second_person(rules, verb, roles)


def may_go_alone(name: str, *, by_command: bool = False) -> bool:
    """The setting allows it; a user of the console needs the permission too."""
    if not settings.MSH_ACT_ALONE:
        return False
    user = None if by_command else _user(name)
    return user is None or user.has_perm(ALONE_PERMISSION)


def end_of(row: ActRequest, now: datetime, name: str = "") -> str:
    """How a request has ended, as a sentence without its full stop: who decided, when and why.
    Empty while it is open. `name` is what the sentence calls it."""
    name = name or f"Request {row.pk}"
    if row.state == RequestState.OPEN:
        return "" if now < row.until else f"{name} lapsed on {_at(row.until)}: nobody decided on it"
    by = "" if row.state == RequestState.WITHDRAWN else f" by {row.decided_by}"
    at = _at(row.decided_at) if row.decided_at else "an unknown date"
    return f"{name} was {row.state}{by} on {at}: {row.words}"


def _at(moment: datetime) -> str:
    return f"{localtime(moment):%Y-%m-%d %H:%M %Z}"


def _user(name: str) -> User | None:
    return User.objects.filter(username=name).first()
