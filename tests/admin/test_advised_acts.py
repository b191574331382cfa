"""Each advice names an act that the page offers to the user, or says whom to ask; and none names
what is not possible. All states of messages, links and conversations, both dialects, all roles."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client, RequestFactory
from django.utils import timezone

from msh import roles
from msh.admin.links.advice import advice_on
from msh.flows.operations import actions, link_actions
from msh.flows.operations.inspection.acts import acts_of
from msh.flows.operations.inspection.causes import ANSWERS, CAUSES, cause_of
from msh.flows.operations.inspection.ways import Standing, words_of
from msh.flows.operations.inspection.why_not_sent import advised
from msh.flows.operations.operator_action import OperatorAction
from msh.models import (
    SHOWN_STATES,
    Flight,
    InboundConversation,
    InboundLink,
    InboundMessage,
    InboundState,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    shown_state,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.flight.numbering import NumberingState
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.protocol.lane import OPERATOR, LaneState
from msh.protocol.reason import Reason
from msh.store.operations.operator_actions import open_links
from partners.models import Partner
from partners.models.dialects import Dialect
from tests.admin.conftest import late_world, suspended_world, url, use, waiting_world
from tests.admin.incidents.test_first_step import opened
from tests.admin.links.conversations import stop
from tests.admin.many import standing_deliveries
from tests.admin.messages.test_submit_again import failed, failed_best_effort
from tests.endpoint.ebms2 import agree, kept_refusal
from tests.flows.conversations_in.conversation import take
from tests.flows.flying import REFUSED, Sky, make_sky, sky_of_five
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


# --- every state, whether it needs an operator or not ---------------------------------------------


def _messages_of_the_draft() -> Rows:
    done = make_world()
    done.submit()
    done.settle()
    failed_best_effort(make_world())
    waiting_world()
    sent, rewound, cancelled = (make_world().submit() for _ in range(3))
    use(_superuser(), "cancel", cancelled)
    again = OutboundMessage.objects.filter(state="acknowledged").values("epoch", "terms")[0]
    for message, number, values in (
        (sent, None, {"state": "sent", "semantics": "BestEffort"}),
        (rewound, 9, {**again, "state": "rewound", "first_sent_at": timezone.now()}),
    ):
        found = OutboundMessage.objects.filter(pk=message.pk)
        found.update(sequence_number=number, **values)
    make_world().submit()
    rows = _with_states()
    assert {one.shown for one in rows} == {one for one, _ in SHOWN_STATES} - {"held"}
    return [*rows, *OutboundLink.objects.all()]


def _messages_that_fly() -> Rows:
    sky = sky_of_five()
    use(_superuser(), "cancel", sky.submit())
    best_effort = sky.submit(semantics="BestEffort")
    OutboundMessage.objects.filter(pk=best_effort.pk).update(state="sent")
    found = _with_states()
    assert {one.shown for one in found} == {one for one, _ in SHOWN_STATES} - {"rewound"}
    return [*found, sky.link]


def _with_states() -> list[Any]:
    return list(OutboundMessage.objects.annotate(shown=shown_state()))


def _links(dialect: str) -> Callable[[], Rows]:
    """In every state that they have, to and from the partner."""

    def build() -> Rows:
        if dialect == "trp":
            idle = make_world()
            open_links(idle.there)
            waiting_world()
            suspended_world()
            asked_to_wait = OutboundLink.objects.filter(pk=waiting_world().link.pk)
            asked_to_wait.update(state="transient", due=timezone.now() + timedelta(hours=1))
        else:
            for state in (LaneState.IDLE, LaneState.SUSPENDED):
                open_links(make_sky().partner)
                link = OutboundLink.objects.latest("pk")
                if state is LaneState.SUSPENDED:
                    OutboundLink.objects.filter(pk=link.pk).update(
                        state=state, suspended_since=timezone.now(), suspended_for="retries_spent"
                    )
        for partner in Partner.objects.all():
            open_links(partner)
        found = list(OutboundLink.objects.all())
        states = LaneState if dialect == "trp" else (LaneState.IDLE, LaneState.SUSPENDED)
        assert {one.state for one in found} >= set(states)
        return [*found, *InboundLink.objects.all()]

    return build


def _deliveries() -> Rows:
    states = [one for one in DeliveryState if one is not DeliveryState.NEW]
    found = [standing_deliveries(state, behind=1) for state in states]
    return [*found, *InboundMessage.objects.all(), *InboundLink.objects.all()]


def _received_messages() -> Rows:
    delivery = standing_deliveries("completed", behind=len(InboundState) - 1)
    messages = list(InboundMessage.objects.filter(link=delivery.message.link_id).order_by("pk"))
    states = [one for one in InboundState if one is not InboundState.HELD]  # `_conversations_in`
    for message, state in zip(messages[1:], states, strict=True):
        InboundMessage.objects.filter(pk=message.pk).update(state=state)
    return [*InboundMessage.objects.all(), delivery]


def _conversations_out() -> Rows:
    """One in each state, and one whose number was given up while another is under way."""
    sky = make_sky(ordered=True)
    stop(sky, "stopped")
    first = sky.submit(conversation_id="outstanding")
    sky.poll()
    sky.answer(first)
    bad = sky.submit(conversation_id="outstanding")
    sky.submit(conversation_id="outstanding")
    job, *_ = sky.poll()
    sky.end(job, REFUSED)
    use(_superuser(), "cancel", bad, verdict="unknown")
    runs = sky.submit(conversation_id="runs")
    sky.submit(conversation_id="confirms")
    sky.poll()
    sky.answer(runs)
    begins = stop(sky, "begins")
    use(_superuser(), "cancel", begins, verdict="unknown")
    beginning = OutboundConversation.objects.get(conversation_id="begins")
    use(_superuser(), "restart_conversation", beginning)
    found = list(OutboundConversation.objects.all())
    assert {one.state for one in found} == set(NumberingState)
    return [*found, *_with_states(), *Incident.objects.all()]


def _conversations_in() -> Rows:
    """In order, with a missing number, and with one that operators were called about."""
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agreement = agree(partner, ordered=True)
    take(agreement, 0, 1)
    for name in ("waits", "called"):
        take(agreement, 0, 2, conversation=name)
    InboundConversation.objects.filter(conversation_id="called").update(called=True, due=None)
    incident = opened(partner, "in", IncidentKind.PREDECESSOR_MISSING)
    return [*InboundConversation.objects.all(), *InboundMessage.objects.all(), incident]


_IN = {
    *(IncidentKind.SEQUENCE_GAP, IncidentKind.SEQUENCE_STALE, IncidentKind.SEQUENCE_CONFLICT),
    *(IncidentKind.MESSAGE_ID_REUSED, IncidentKind.RESET_HELD, IncidentKind.DELIVERY_FAILED),
    *(IncidentKind.BACKLOG, IncidentKind.DELIVERY_REJECTED, IncidentKind.DELIVERY_IN_DOUBT),
    *(IncidentKind.NO_CONSUMER, IncidentKind.ROUTE_FAILED, IncidentKind.PREDECESSOR_MISSING),
    *(IncidentKind.ORDER_RESTARTED, IncidentKind.SIGNATURE_REFUSED),
    *(IncidentKind.CERTIFICATE_ENDS, IncidentKind.CERTIFICATE_ENDS_SOON),
    *(IncidentKind.AGREEMENT_ENDS, IncidentKind.AGREEMENT_ENDED),
}
"""Kinds of incidents about what a partner sends; the others are about what it is sent."""


def _every_incident(dialect: str, direction: str) -> Callable[[], Rows]:
    """With nothing that stands still for it: what it was about has ended meanwhile."""

    def build() -> Rows:
        partner = make_world().there if dialect == "trp" else make_sky().partner
        open_links(partner)
        kinds = _IN if direction == "in" else set(IncidentKind) - _IN
        if dialect == "trp":
            InboundLink.objects.update(last_number=5)
        else:
            kinds = kinds - {IncidentKind.RESET_HELD}  # there are no numbers
        return [opened(partner, direction, kind) for kind in sorted(kinds)]

    return build


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
    "messages of the draft": _messages_of_the_draft,
    "messages that fly": _messages_that_fly,
    "links of the draft": _links("trp"),
    "links of ebMS 2.0": _links("ebms2"),
    "deliveries": _deliveries,
    "received messages": _received_messages,
    "conversations to partners": _conversations_out,
    "conversations from partners": _conversations_in,
    **{f"every incident: {dialect}, {direction}": _every_incident(dialect, direction)
       for dialect in Dialect for direction in ("out", "in")},
}  # fmt: skip
ROLES = tuple(roles.ROLES)


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
