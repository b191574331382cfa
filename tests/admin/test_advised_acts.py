"""Each advice names an act that the page offers to the user, or says whom to ask; and none names
what is not possible. All states of messages, links and conversations, both dialects, all roles."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client, RequestFactory
from django.utils import timezone

from msh.admin.links.advice import advice_on
from msh.flows.operations import actions, link_actions
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.causes import ANSWERS, CAUSES, cause_of
from msh.flows.operations.inspection.ways import Standing, words_of
from msh.flows.operations.inspection.why_not_sent import advised
from msh.flows.operations.operator_action import OperatorAction
from msh.models import (
    Flight,
    InboundConversation,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.reason import Reason
from partners.models import Partner
from tests.admin.conftest import late_world, suspended_world, url, use, waiting_world
from tests.admin.incidents.test_first_step import opened
from tests.admin.links.test_conversation import stop
from tests.admin.many import standing_deliveries
from tests.admin.messages.test_submit_again import failed, failed_best_effort
from tests.endpoint.ebms2 import agree, kept_refusal
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import Sky, make_sky, sky_of_five
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

Rows = Iterable[Model]


def _suspended(kind: str, reason: Reason = Reason.NONE) -> Callable[[], Rows]:
    def build() -> Rows:
        world = suspended_world(queued=1)
        first, behind = OutboundMessage.objects.order_by("pk")
        first.attempts.update(reason=reason)
        OutboundLink.objects.update(suspended_for=kind, suspended_reason=Reason.NONE)
        Incident.objects.update(kind=kind)
        return [world.link, first, behind, *Incident.objects.exclude(kind=OPERATOR)]

    return build


def _gate(kind: str) -> Callable[[], Rows]:
    def build() -> Rows:
        sky = make_sky()
        message = sky.submit()
        sky.poll()
        OutboundLink.objects.filter(pk=sky.link.pk).update(
            state="suspended", suspended_for=kind, suspended_since=timezone.now()
        )
        incident = [] if kind == OPERATOR else [opened(sky.partner, "out", IncidentKind(kind))]
        return [OutboundLink.objects.get(), message, *incident]

    return build


def _all_of(sky: Sky) -> Rows:
    return [sky.link, *OutboundMessage.objects.all(), *Incident.objects.all()]


def _states() -> Rows:
    return _all_of(sky_of_five())


def _failed(count: int) -> Callable[[], Rows]:
    def build() -> Rows:
        sky = make_sky()
        for _ in range(count):
            failed(sky)
        return _all_of(sky)

    return build


def _over() -> Rows:
    """Acknowledged late: the incident is open, and nothing of it has failed any more (case 28)."""
    sky = make_sky()
    message = failed(sky)
    sky.answer(message)
    Incident.objects.update(resolved_at=None, resolved_by="")
    return _all_of(sky)


def _held(lapsed: bool) -> Rows:
    sky = make_sky(retries=0, on_failure="hold")
    message, job = sky.start()
    sky.end(job, AttemptResult(AttemptOutcome.FAILED, status=500, detail="500 no"))
    sky.let_pass(1000)
    sky.poll()
    assert sky.state(message) == "held"
    if lapsed:
        Flight.objects.update(persists_until=timezone.now())
    return _all_of(sky)


def _stopped(how: str) -> Rows:
    sky = make_sky(ordered=True)
    message = stop(sky, "talk", behind=1)
    if how == "broken":
        use(_superuser(), "cancel", message, verdict="unknown")
    if how == "two":
        stop(sky, "other")
    return [*_all_of(sky), *OutboundConversation.objects.all()]


def _superuser() -> Client:
    client = Client()
    user = User.objects.filter(username="root").first() or User.objects.create_superuser("root")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def _draft() -> Rows:
    world = waiting_world()
    best_effort = failed_best_effort(make_world())
    late, acknowledged = late_world()
    return [world.link, *OutboundMessage.objects.all(), late.link, best_effort, acknowledged]


def _delivery(state: str, kind: IncidentKind) -> Callable[[], Rows]:
    def build() -> Rows:
        delivery = standing_deliveries(state, behind=1)
        return [delivery, opened(delivery.message.link.partner, "in", kind)]

    return build


def _received(kind: IncidentKind) -> Rows:
    return [opened(make_sky().partner, "in", kind, "m7")]


def _missing() -> Rows:
    """A conversation that lacks a number, with the incident."""
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    take(agree(partner, ordered=True), 0, 2)
    kind = IncidentKind.PREDECESSOR_MISSING
    return [*InboundConversation.objects.all(), opened(partner, "in", kind)]


SITUATIONS: dict[str, Callable[[], Rows]] = {
    "draft": _draft,
    "suspended by an operator": _suspended(OPERATOR),
    **{f"draft: {kind}": _suspended(kind) for kind in (
        IncidentKind.RETRIES_SPENT, IncidentKind.REFUSED_BY_PEER, IncidentKind.TRANSIENT_LIMIT,
        IncidentKind.RESYNCHRONISE, IncidentKind.ERROR_RECEIVED, IncidentKind.PROCESSING_FAILED,
    )},
    **{f"draft: {reason}": _suspended(IncidentKind.RETRIES_SPENT, reason) for reason in ANSWERS},
    **{f"gate: {kind}": _gate(kind) for kind in (OPERATOR, IncidentKind.PARTNER_UNREACHABLE)},
    "flights": _states,
    "one failed": _failed(1),
    "three failed": _failed(3),
    "acknowledged late": _over,
    "held": lambda: _held(lapsed=False),
    "held too long": lambda: _held(lapsed=True),
    "stopped": lambda: _stopped("one"),
    "broken": lambda: _stopped("broken"),
    "two stopped": lambda: _stopped("two"),
    "blocked": _delivery("blocked", IncidentKind.DELIVERY_FAILED),
    "parked": _delivery("parked", IncidentKind.DELIVERY_FAILED),
    "in doubt": _delivery("in_doubt", IncidentKind.DELIVERY_IN_DOUBT),
    "rejected": _delivery("rejected", IncidentKind.DELIVERY_REJECTED),
    "refused": lambda: [kept_refusal()],
    "id reused": lambda: _received(IncidentKind.MESSAGE_ID_REUSED),
    "order restarted": lambda: _received(IncidentKind.ORDER_RESTARTED),
    "missing": _missing,
}  # fmt: skip
ROLES = ("Viewer", "Operator", "Supervisor", "Administrator")


def request_of(role: str) -> Any:
    user, _ = User.objects.get_or_create(username=role, defaults={"is_staff": True})
    user.groups.set([Group.objects.get(name=role)])
    request: Any = RequestFactory().get("/")
    request.user = User.objects.get(pk=user.pk)
    return request


def offered(request: Any, row: Model) -> tuple[list[OperatorAction], str]:
    """The actions on the page of the row and on the lists and jobs that it leads to, and what it
    says about persons to ask."""
    page: Any = admin.site.get_model_admin(type(row))
    shown = page.get_object(request, str(row.pk))
    acts = [offer.action.action for offer in page.offers(request, shown)]
    context = page.page_context(request, shown)
    said = " ".join(context.get("withheld", page.withheld(request, shown)))
    if isinstance(shown, OutboundLink) and (advice := advice_on(shown, request)):
        asked: Any = advice.asked
        said = f"{said} {asked.title if advice.ask and asked else ''}"
    for jump in context.get("jumps", ()):
        if "submit-again" in jump.url:
            acts.append(actions.SUBMIT_AGAIN)
        if jump.title == "Failed messages":
            first = OutboundMessage.objects.filter(state="failed").first()
            acts += offered(request, first)[0] if first else []
        if jump.title == "Waiting conversations" and isinstance(row, Incident):
            acts += _on_conversations(request, row)
    return acts, said


def _on_conversations(request: Any, incident: Incident) -> list[OperatorAction]:
    model: Any = OutboundConversation if incident.direction == "out" else InboundConversation
    found = model.objects.waiting().filter(link__partner=incident.partner_id)
    return [act for row in found for act in offered(request, row)[0]]


def named(row: Model) -> list[OperatorAction]:
    page: Any = admin.site.get_model_admin(type(row))
    return list(page.advised(page.get_object(request_of("Administrator"), str(row.pk))))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_act_that_is_advised_is_offered_or_a_person_is_named(situation: str) -> None:
    advised = [(row, acts) for row in SITUATIONS[situation]() if (acts := named(row))]
    missing = []
    for role in ROLES:
        request = request_of(role)
        for row, acts in advised:
            shown, said = offered(request, row)
            missing += [
                (role, type(row).__name__, str(row), act.title)
                for act in acts
                if act not in shown and (role == "Administrator" or act.title not in said)
            ]
    assert missing == []


@pytest.mark.parametrize("situation", ["one failed", "three failed", "acknowledged late"])
def test_nothing_is_resumed_that_has_ended(situation: str) -> None:
    resuming = {link_actions.RESUME.title, actions.RESUME_MESSAGE.title}
    rows = [row for row in SITUATIONS[situation]() if not isinstance(row, OutboundLink)]
    for row in rows:
        assert resuming.isdisjoint(act.title for act in named(row)), row
    (incident,) = [row for row in rows if isinstance(row, Incident)]
    page: Any = admin.site.get_model_admin(Incident)
    assert "resum" not in str(page.advice(incident)).lower()


FREE = re.compile(r"\b(?:resume|cancel|submit|restart|resynchronise|skip|drop)\b (?:it|the|that)")
"""What names an act without its entry in the table."""


@pytest.mark.parametrize("standing", list(Standing))
def test_no_advice_names_an_act_in_words_of_its_own(standing: Standing) -> None:
    causes = [cause.of(standing) for cause in (*CAUSES.values(), *ANSWERS.values())]
    for cause in causes:
        without = re.sub("\ue000[^\ue002]*\ue002", "", cause.text)
        assert not FREE.search(without.lower()), cause.text
        assert "{" not in cause.advice


BY_ITSELF = (
    *("resolved automatically", "resolves the incident", "forwarded automatically"),
    "must send them",
)
"""What is said where nobody needs to act here."""


@pytest.mark.parametrize("kind", list(IncidentKind))
def test_each_cause_names_an_act_or_says_that_it_ends_by_itself(kind: IncidentKind) -> None:
    cause = CAUSES[kind]
    texts = [cause.of(standing).text for standing in Standing]
    assert any("\ue000" in one or any(end in one for end in BY_ITSELF) for one in texts)


def test_an_advice_is_words_on_the_page_and_entries_for_the_test(client: Client) -> None:
    message = failed(make_sky())
    text = advised(message)
    assert acts_of(text) == (actions.SUBMIT_AGAIN, actions.CORRECT)
    assert "If it is still needed, submit the message again." in words_of(text)
    page = _superuser().get(url(OutboundMessage, "change", message.pk)).content.decode()
    assert "If it is still needed, submit the message again." in page
    assert "\ue000" not in page


def test_the_last_answer_decides_for_a_message_too() -> None:
    """The cause of TLS reaches the advice of a held message and of the incident."""
    sky = make_sky(retries=0, on_failure="hold")
    message, job = sky.start()
    tls = "Certificate not trusted: certificate has expired"
    failed = AttemptResult(AttemptOutcome.FAILED, detail=tls, body_sent=False, reason=Reason.TLS)
    sky.end(job, failed)
    Flight.objects.update(state="held", due=None, under_way=False, held_for="retries_spent")
    incident = opened(sky.partner, "out", IncidentKind.RETRIES_SPENT, message.message_id)
    page: Any = admin.site.get_model_admin(Incident)
    for said in (words_of(advised(message)), str(page.advice(incident))):
        assert "this host must trust its CA" in said
    assert "certificate has expired" in words_of(advised(message))
    assert cause_of(IncidentKind.RETRIES_SPENT, standing=Standing.HELD).advice.startswith("Check")
