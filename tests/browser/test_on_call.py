"""A night on call: each trouble is handled from the dashboard, by at most three clicks to the act,
and is over then. By mouse all of them, some by keyboard alone or on a telephone."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import pytest
from django.utils import timezone
from playwright.sync_api import Locator, Page

from msh.flows.operations.watch import watch
from msh.models import (
    HELD,
    Consumer,
    ConsumerKind,
    Delivery,
    Flight,
    InboundConversation,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.lane import OPERATOR, LaneState
from partners.models import Partner
from partners.models.partner import OutgoingKind
from tests.admin.many import standing_deliveries
from tests.browser.console import TELEPHONE, Console
from tests.browser.test_access import press
from tests.endpoint.ebms2 import agree
from tests.exchange.pair import WAITS, Pair, PairFactory
from tests.exchange.test_flights import Airport, airport
from tests.flows.conversations_in.conversation import take
from tests.peer import Answer, Peer, error, normal, silence, status
from tests.waiting import wait_until

__all__ = ["airport"]

MOST = 3
"""Clicks from the dashboard to the act: a press that opens a page or a dialog. The one that submits
the form with the reason is the act itself, and is not counted."""
REASON = "agreed by telephone"


@dataclass(frozen=True)
class Submit:
    """The button that submits a form, and what is filled in beside the reason, by label."""

    button: str | re.Pattern[str]
    fields: Mapping[str, str] = field(default_factory=dict)


Step = str | re.Pattern[str] | Submit
"""The name of a link or button, or a form."""


@dataclass(frozen=True)
class Trouble:
    """`row`: what its line on the dashboard has, where steps begin. `mend`: what the partner or the
    application does meanwhile."""

    role: str
    row: str
    steps: Sequence[Step]
    is_over: Callable[[], bool]
    mend: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Night:
    """What troubles are made of. `peer`: of an application that is called by HTTP."""

    pair: PairFactory
    airport: Callable[..., Airport]
    peer: Peer


@pytest.fixture
def night(console: Console, pair: PairFactory, airport: Callable[..., Airport]) -> Iterator[Night]:
    """What other tests left stands behind what the test makes, and nothing of that is left."""
    calm_down()
    with Peer() as peer:
        yield Night(pair, airport, peer)
    Consumer.objects.exclude(partner=None).update(enabled=False)
    Consumer.objects.filter(partner=None).update(action="")
    calm_down()


def calm_down() -> None:
    OutboundLink.objects.suspended().update(suspended_for=OPERATOR)
    Incident.objects.filter(resolved_at=None).update(resolved_at=timezone.now())


# --- partners that misbehave ----------------------------------------------------------------------


def suspended(night: Night, answer: Answer | None, **settings: object) -> Pair:
    """A partner that answers like that; None: there is nobody."""
    partner = night.pair(timeout=1, retries=0, retry_interval=1, **settings)
    if answer is None:
        partner.peer.go_down()
    else:
        partner.peer.always(answer)
    partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    return partner


def mend(*partners: Pair) -> None:
    for one in partners:
        one.peer.release()
        one.peer.replies = None
        one.peer.acknowledges = True
        one.peer.always(status(204))


def come_up(*partners: Pair) -> None:
    mend(*partners)
    for one in partners:
        one.peer.come_up()


def resumed(partner: Pair, *before: Step, role: str = "Operator") -> Trouble:
    return Trouble(
        role,
        partner.partner.name,
        [*before, "Resume sending", Submit("Resume sending")],
        lambda: partner.acknowledged() == 1 and not partner.incidents(),
        lambda: mend(partner),
    )


def credentials(night: Night) -> Trouble:
    settings = Submit("Save", {"Token, or user:password": "a-new-one-0123456789"})
    partner = suspended(night, status(401))
    partner.partner.show(OutgoingKind.BEARER, "an-old-one-0123456789")
    partner.partner.save()
    return resumed(partner, "Partner settings", settings, role="Administrator")


def name(night: Night) -> Trouble:
    partner = night.pair(timeout=1, retries=0)
    address = partner.peer.address
    Partner.objects.filter(pk=partner.partner.pk).update(address="http://nowhere.invalid/ebxml/")
    partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    settings = Submit("Save", {"Address": address})
    return resumed(partner, "Partner settings", settings, role="Administrator")


def gateway(night: Night) -> Trouble:
    partners = [suspended(night, None) for _ in range(3)]
    return Trouble(
        "Supervisor",
        "3 partners",
        [re.compile("^Resume these 3"), Submit(re.compile("^Resume partners"))],
        lambda: all(one.acknowledged() == 1 and not one.incidents() for one in partners),
        lambda: come_up(*partners),
    )


def one_of_a_group(night: Night) -> Trouble:
    """Who may not start a bulk job resumes each."""
    partners = [suspended(night, None) for _ in range(3)]
    first = partners[0]
    return Trouble(
        "Operator",
        "What to do, and which partners",
        ["What to do, and which partners", first.partner.name, "Resume sending",
         Submit("Resume sending")],
        lambda: first.acknowledged() == 1 and not first.incidents(),
        lambda: come_up(*partners),
    )  # fmt: skip


def maintenance(night: Night) -> Trouble:
    """It asks us to wait: nothing has to be done, but its operator says that it is up again."""
    partner = night.pair(timeout=5, retries=1)
    partner.peer.always(status(503, retry_after=900, reason="maintenance until 06:00"))
    message = partner.submit()
    partner.wait_for_attempts(message, 1)
    return Trouble(
        "Operator",
        "",
        [re.compile(f"^{partner.partner.name}: "), "Send now", Submit("Send now")],
        lambda: partner.acknowledged() == 1 and not partner.incidents(),
        lambda: mend(partner),
    )


def refused_by_an_error(night: Night, code: str) -> Pair:
    partner = night.pair(timeout=60)
    partner.peer.replies = lambda received: [error(received.message, code)]
    partner.submit()
    partner.wait_for_link(LaneState.SUSPENDED)
    return partner


def out_of_step(night: Night) -> Trouble:
    """Its MSH is another product: what it accepted last is asked by telephone."""
    partner = refused_by_an_error(night, "SequenceGap")
    return Trouble(
        "Supervisor",
        partner.partner.name,
        ["Resynchronise and resume", Submit("Compare", {"Last accepted number": "0"}),
         Submit("Resynchronise and resume")],
        lambda: partner.acknowledged() == 1 and not partner.incidents(),
        lambda: mend(partner),
    )  # fmt: skip


def answers(answer: Answer) -> Callable[[Night], Trouble]:
    return lambda night: resumed(suspended(night, answer))


# --- messages that fly ----------------------------------------------------------------------------

FAULT = status(
    500,
    body=b'<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><S:Fault>'
    b"<faultcode>S:Client</faultcode><faultstring>Unknown order type</faultstring>"
    b"</S:Fault></S:Body></S:Envelope>",
    headers={"Content-Type": "text/xml"},
)


def failed(night: Night, count: int) -> Airport:
    here = night.airport()
    here.peer.always(FAULT)
    for _ in range(count):
        here.wait_for_state(here.submit(), "failed")
    return here


def lands(here: Airport) -> None:
    here.peer.always(here.take)


def one_failed(night: Night) -> Trouble:
    here = failed(night, 1)
    return Trouble(
        "Supervisor",
        here.partner.name,
        ["Message", "Submit again", Submit("Submit again")],
        lambda: acknowledged(here) == 1 and not here.incidents(),
        lambda: lands(here),
    )


def several_failed(night: Night) -> Trouble:
    here = failed(night, 3)
    return Trouble(
        "Supervisor",
        here.partner.name,
        [
            re.compile("refused"),
            re.compile("^Submit .*again"),
            Submit(re.compile("^Submit failed messages again")),
        ],
        lambda: acknowledged(here) == 3 and not here.incidents(),
        lambda: lands(here),
    )


def acknowledged(here: Airport) -> int:
    return OutboundMessage.objects.filter(link__partner=here.partner, state="acknowledged").count()


def held(night: Night, **settings: object) -> Airport:
    here = night.airport(on_failure="hold", retries=0, retry_interval=1, **settings)
    here.lands = lambda message_id, copy: False
    message = here.submit(conversation_id="ward-3")
    flights = Flight.objects.filter(message=message, state=HELD)
    wait_until(flights.exists, seconds=WAITS, what=f"{message} held")
    return here


def one_held(night: Night) -> Trouble:
    here = held(night)
    return Trouble(
        "Operator",
        here.partner.name,
        ["Message", "Resume message", Submit("Resume message")],
        lambda: acknowledged(here) == 1 and not here.incidents(),
        lambda: setattr(here, "lands", lambda message_id, copy: True),
    )


def conversation_stopped(night: Night) -> Trouble:
    here = held(night, ordered=True)
    here.submit(conversation_id="ward-3")
    wait_until(lambda: OutboundConversation.objects.filter(link__partner=here.partner).exists())
    return Trouble(
        "Operator",
        here.partner.name,
        ["ward-3", "Resume message", Submit("Resume message")],
        lambda: acknowledged(here) == 2 and not here.incidents(),
        lambda: setattr(here, "lands", lambda message_id, copy: True),
    )


# --- messages from partners -----------------------------------------------------------------------


def hole(night: Night) -> Trouble:
    name = f"clinic-{uuid4().hex[:12]}"
    partner = Partner.objects.create(name=name, uri=f"http://{name}.example/")
    agreement = agree(partner, ordered=True, tpa_id=f"cpa-{name}")
    take(agreement, 0, 2, conversation="ward-12", name=name)
    conversations = InboundConversation.objects.filter(link__partner=partner)
    conversations.update(due=timezone.now())
    watch()
    here = conversations.get()
    return Trouble(
        "Supervisor",
        name,
        ["Waiting conversations", here.conversation_id, "Skip missing", Submit("Skip missing")],
        lambda: not Incident.objects.filter(partner=partner, resolved_at=None).exists(),
    )


def delivered_to(night: Night, kind: ConsumerKind, state: str, **settings: object) -> Pair:
    """A message of a partner, at a consumer of its own."""
    partner = night.pair()
    Consumer.objects.create(
        name=f"erp-{partner.partner.name}",
        partner=partner.partner,
        kind=kind,
        url=night.peer.address if kind == ConsumerKind.HTTP else "",
        **{"attempts": 1, "retry_interval": 1, "lease": 1, **settings},
    )
    assert partner.peer.send(normal(sequence_number=1)).status == 204
    found = Delivery.objects.filter(message__link__partner=partner.partner, state=state)
    wait_until(found.exists, seconds=WAITS, what=f"a delivery {state}")
    return partner


def at_consumer(partner: Pair, role: str, *steps: Step, mend: Callable[[], object]) -> Trouble:
    done = Delivery.objects.filter(message__link__partner=partner.partner, state="completed")
    return Trouble(
        role,
        partner.partner.name,
        steps,
        lambda: done.exists() and not partner.incidents(),
        mend,
    )


def application_fails(night: Night) -> Trouble:
    night.peer.always(status(500, body=b"ORA-12541: TNS:no listener"))
    partner = delivered_to(night, ConsumerKind.HTTP, "blocked")
    steps = ("Run again", Submit("Run again"))
    return at_consumer(partner, "Operator", *steps, mend=lambda: night.peer.always(status(204)))


def application_rejects(night: Night) -> Trouble:
    night.peer.always(status(422, body=b"unknown article 4711"))
    partner = delivered_to(night, ConsumerKind.HTTP, "rejected")
    first = re.compile("^" + Delivery.objects.latest("pk").message.message_id[:8])
    steps = ("Deliveries", first, "Run again", Submit("Run again"))
    return at_consumer(partner, "Operator", *steps, mend=lambda: night.peer.always(status(204)))


def in_doubt(night: Night) -> Trouble:
    """Its application says on the telephone that it has the message."""
    delivery = standing_deliveries("in_doubt", behind=1)
    found = Delivery.objects.filter(pk=delivery.pk, state="completed")
    return Trouble(
        "Operator",
        delivery.message.link.partner.name,
        ["Mark completed", Submit("Mark completed")],
        found.exists,
    )


def no_consumer(night: Night) -> Trouble:
    Consumer.objects.filter(partner=None).update(action="NothingOfThis")
    partner = night.pair()
    assert partner.peer.send(normal(sequence_number=1)).status == 204
    wait_until(lambda: partner.incidents() == ["no_consumer"], seconds=WAITS)
    path = "tests.exchange.application.consume"
    values = {"Name": f"late-{partner.partner.name}", "Dotted path": path}
    steps = ("Add consumer", Submit("Save", values))
    return at_consumer(partner, "Administrator", *steps, mend=lambda: None)


TROUBLES: Mapping[str, Callable[[Night], Trouble]] = {
    "credentials are refused": credentials,
    "name does not resolve": name,
    "gateway of three is dead": gateway,
    "one of a group": one_of_a_group,
    "silence": answers(silence()),
    "not available, with a page": answers(
        status(503, headers={"Content-Type": "text/html"}, body=b"<h1>Back at <b>six</b></h1>")
    ),
    "too large": answers(status(413, body=b"Request Entity Too Large")),
    "log-in of a network": answers(
        status(200, headers={"Content-Type": "text/html"}, body=b"<title>Log in</title>")
    ),
    "refused by an Error": lambda night: resumed(refused_by_an_error(night, "DeliveryFailure")),
    "out of step": out_of_step,
    "asks us to wait": maintenance,
    "SOAP Fault": one_failed,
    "SOAP Faults": several_failed,
    "held": one_held,
    "conversation stopped": conversation_stopped,
    "hole": hole,
    "application fails": application_fails,
    "application rejects": application_rejects,
    "in doubt": in_doubt,
    "no consumer": no_consumer,
}


# --- who handles them -----------------------------------------------------------------------------


def by_mouse(page: Page, wanted: Locator) -> None:
    wanted.click()


def find(page: Page, step: str | re.Pattern[str], row: str) -> Locator:
    """In the line of the dashboard that says `row`, or on the page."""
    where = page.get_by_role("main")
    if row and page.get_by_role("heading", name="Dashboard").count():
        where = page.get_by_role("row").filter(has_text=row).first
    exact = isinstance(step, str)
    found = where.get_by_role("link", name=step, exact=exact)
    for role in ("button", "group"):
        found = found.or_(where.get_by_role(role, name=step, exact=exact))
    return found.or_(where.locator("summary").filter(has_text=step)).first


def fill_in(page: Page, form: Submit, act: Callable[[Page, Locator], None]) -> None:
    """In the dialog that was opened, or on the page."""
    reason = page.get_by_label("Reason").first
    if form.button != "Compare":
        reason.fill(REASON)
    for label, value in form.fields.items():
        page.get_by_label(label).first.fill(value)
    dialog = page.get_by_role("dialog")
    where = dialog if dialog.is_visible() else page
    act(page, where.get_by_role("button", name=form.button, exact=isinstance(form.button, str)))


def handle(page: Page, trouble: Trouble, act: Callable[[Page, Locator], None]) -> None:
    for step in trouble.steps:
        if isinstance(step, Submit):
            fill_in(page, step, act)
        else:
            act(page, find(page, step, trouble.row))
    wait_until(trouble.is_over, seconds=WAITS, what=f"{trouble.row}: it is over")


def clicks(trouble: Trouble) -> int:
    return sum(not isinstance(step, Submit) for step in trouble.steps)


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_is_over_after_three_clicks_and_a_reason(
    console: Console, night: Night, name: str
) -> None:
    trouble = TROUBLES[name](night)
    page = console.open(trouble.role)
    trouble.mend()
    handle(page, trouble, by_mouse)
    assert clicks(trouble) <= MOST


@pytest.mark.parametrize("name", ["silence", "held", "hole", "application fails"])
def test_some_by_keyboard_alone(console: Console, night: Night, name: str) -> None:
    trouble = TROUBLES[name](night)
    page = console.open(trouble.role)
    trouble.mend()
    handle(page, trouble, press)


@pytest.mark.parametrize("name", ["credentials are refused", "SOAP Fault", "hole", "in doubt"])
def test_some_on_a_telephone(console: Console, night: Night, name: str) -> None:
    trouble = TROUBLES[name](night)
    page = console.open(trouble.role, viewport=TELEPHONE)
    trouble.mend()
    handle(page, trouble, by_mouse)
