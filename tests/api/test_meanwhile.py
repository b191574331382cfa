"""What is asked for ends, or is removed by retention, between two statements of a request."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count as count_up
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.delivery import pull
from msh.flows.operations import cancel
from msh.flows.operations.many.cancel_queue import cancel_queue
from msh.models import (
    ApiToken,
    ConsumerKind,
    InboundConversation,
    OutboundConversation,
    OutboundMessage,
    Scope,
)
from msh.protocol.kinds import Verdict
from msh.store.history import Actor
from partners.models import Partner
from tests.admin.conftest import address, suspended_world, url
from tests.admin.links.conversations import stop
from tests.api.application import Answer, Application
from tests.delivery.desk import consumer, receive
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in import conversation
from tests.flows.flying import make_sky
from tests.flows.world import make_world
from tests.many.test_replay import completed
from tests.sql import execute, wrap_execute

pytestmark = pytest.mark.django_db

Act = Callable[[], object]


@contextmanager
def before_statement(number: int, act: Act, patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """`act` happens before this statement; how many statements there were."""
    count = [0]

    def note() -> None:
        count[0] += 1
        if count[0] == number:
            act()

    def of_the_orm(run: Any, *asked: Any) -> Any:
        note()
        return run(*asked)

    def of_the_store(run: Any, calls: Any) -> Any:
        note()
        return run(calls)

    with patch.context() as patched:
        wrap_execute(patched, of_the_store)
        with connection.execute_wrapper(of_the_orm):
            yield count


def statuses(
    get: Callable[[], int], act: Act, patch: pytest.MonkeyPatch, *, few: bool = False
) -> set[int]:
    """What is answered if `act` happens before each of the statements in turn, or before a `few` of
    them: a page is read from one snapshot."""
    found: set[int] = set()
    numbers: Iterable[int] = count_up(1)
    if few:
        with transaction.atomic(), before_statement(0, act, patch) as count:
            found.add(get())
            transaction.set_rollback(True)
        numbers = [2, count[0] // 2, count[0], count[0] + 1]
    for number in numbers:
        with transaction.atomic():
            done: list[bool] = []

            def once(done: list[bool] = done) -> None:
                if not done:
                    done.append(True)
                    act()

            with before_statement(number, once, patch) as count:
                found.add(get())
            transaction.set_rollback(True)
        if count[0] < number:
            break
    return found


def remove(*tables: str) -> Act:
    """As retention does, whatever refers to it."""

    def act() -> None:
        execute("SET CONSTRAINTS ALL DEFERRED")
        execute("SET LOCAL session_replication_role = replica")
        for table in tables:
            execute(f"DELETE FROM {table}")
        execute("SET LOCAL session_replication_role = origin")

    return act


def acknowledge() -> None:
    execute("DELETE FROM msh_flight")
    execute("UPDATE msh_outboundlink SET in_flight_id = NULL, state = 'idle', due = NULL")
    execute(
        "UPDATE msh_outboundmessage SET state = 'acknowledged', completed_at = now(),"
        " outcome = 'received'"
    )


SENT = ("msh_attempt", "msh_flight", "msh_outboundpayload", "msh_history", "msh_outboundmessage")
RECEIVED = ("msh_delivery", "msh_inboundpayload", "msh_inboundmessage")
GONE, RECEIVED_GONE = remove(*SENT), remove(*RECEIVED)


def submitted(kind: str) -> OutboundMessage:
    if kind == "lane":
        world = make_world()
        message = world.submit()
        world.poll()
        return message
    sky = make_sky()
    message = sky.submit()
    sky.poll()
    return message


@pytest.fixture
def operator(token: Callable[..., Application]) -> Application:
    """May read everything."""
    made = token(*(scope.value for scope in Scope))
    User.objects.filter(username=made.name).update(is_superuser=True)
    return made


def require_an_answer(
    asked: Mapping[str, Callable[[], int]], act: Act, patch: pytest.MonkeyPatch
) -> None:
    """What has ended is there still; what is removed is found, or not."""
    found = {what: statuses(get, act, patch) for what, get in asked.items()}
    others = set() if act is acknowledge else {404}
    assert {what: got for what, got in found.items() if got - {200} - others} == {}
    assert [what for what, got in found.items() if 200 not in got] == []


@pytest.mark.parametrize("kind", ["lane", "flight"])
@pytest.mark.parametrize("act", [acknowledge, GONE], ids=["ends", "is removed"])
def test_a_message(
    kind: str, act: Act, operator: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = submitted(kind)
    path = f"messages/{message.message_id}"
    asked = {
        "document": lambda: operator.get(path).status,
        "history": lambda: operator.get(f"{path}/history").status,
        "payload": lambda: operator.get(f"{path}/payloads/1").status,
    }
    require_an_answer(asked, act, monkeypatch)


def test_the_page_of_a_message_that_ends(
    administrator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = submitted("flight")
    page = reverse("admin:msh_outboundmessage_change", args=[message.pk])
    get = partial(_code, administrator.get, page)
    assert statuses(get, acknowledge, monkeypatch, few=True) == {200}


def test_a_received_message(operator: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = receive(make_world())
    asked = {
        "feed": lambda: operator.get("inbound").status,
        "payload": lambda: operator.get(f"inbound/{message.pk}/payloads/1").status,
    }
    require_an_answer(asked, RECEIVED_GONE, monkeypatch)


WHY = {"reason": "agreed by phone"}


@dataclass(frozen=True)
class Asked:
    """Tables whose rows are removed; paths of documents and actions in the API, with the body of
    each; and rows with pages in the console, with the dialogs of each."""

    removed: Sequence[str]
    documents: Sequence[str] = ()
    acts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    pages: Mapping[Model, Sequence[str]] = field(default_factory=dict)


Acts = dict[str, Mapping[str, object]]
LINKS = ("msh_incident", "msh_outboundlink")
TOMORROW = (timezone.now() + timedelta(days=1)).isoformat()


def hidden(page: Any) -> dict[str, object]:
    """What the dialog sends with the reason."""
    form = page.context and page.context.get("form")
    return {one.name: one.value() or "" for one in form.hidden_fields()} if form else {}


def _links() -> Asked:
    link = suspended_world().link
    documents = ["links", "incidents", f"links/{link.pk}/queue"]
    return Asked(["msh_incident"], documents, pages={link: ["resume"]})


def _link() -> Asked:
    """As of a partner that is deleted, with all that was sent to it."""
    link = suspended_world().link
    path = f"links/{link.pk}"
    acts: Acts = {f"{path}/resume": WHY, f"{path}/plan-maintenance": {**WHY, "ends_at": TOMORROW}}
    return Asked([*SENT, *LINKS], ["links"], acts, {link: ["resume"]})


def _partner() -> Asked:
    link = suspended_world().link
    acts = {f"links/{link.pk}/resume": WHY}
    return Asked([*SENT, *LINKS, "msh_inboundlink", "partners_partner"], ["links"], acts)


def _delivery() -> Asked:
    (delivery,) = completed()
    acts = {f"deliveries/{delivery.pk}/replay": WHY}
    return Asked(RECEIVED, ["inbound"], acts, {delivery: ["replay"]})


def _taker() -> Any:
    made: Any = consumer(ConsumerKind.PULL, name="orders")
    made.api_tokens.set(ApiToken.objects.all())
    return made


def _to_take() -> Asked:
    _taker()
    receive(make_world())
    return Asked(RECEIVED, acts={"deliveries/take": {"consumer": "orders"}})


def _to_settle() -> Asked:
    taker = _taker()
    receive(make_world())
    (taken,) = pull.take(taker, 1)
    outcome = {"attempt": taken.attempt, "outcome": "completed"}
    return Asked(RECEIVED, acts={f"deliveries/{taken.delivery}/settle": outcome})


def _job() -> Asked:
    link = suspended_world().link
    job = cancel_queue(link, Actor("vera", "closed"), last=OutboundMessage.objects.latest("pk").pk)
    documents = ["jobs", f"jobs/{job.pk}", f"jobs/{job.pk}/rows"]
    acts = {f"jobs/{job.pk}/cancel": WHY}
    return Asked(["msh_bulkitem", "msh_bulkjob"], documents, acts, {job: ["cancel"]})


def _conversation_out() -> Asked:
    sky = make_sky(ordered=True)
    message = stop(sky, "talk")
    cancel.cancel(message, Verdict.UNKNOWN, Actor("vera", "old"))
    row = OutboundConversation.objects.get()
    path = f"conversations/out/{row.pk}"
    acts: Acts = {f"{path}/restart-conversation": WHY, f"{path}/start-order": {**WHY, "last": 6}}
    removed = [*SENT, "msh_outboundconversation"]
    return Asked(
        removed, ["conversations/out"], acts, {row: ["restart_conversation", "start_order"]}
    )


def _conversation_in() -> Asked:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    agreement = agree(partner, ordered=True)
    conversation.take(agreement, 0, 2, 3)
    row = InboundConversation.objects.get()
    path = f"conversations/in/{row.pk}"
    acts: Acts = {f"{path}/{act}": WHY for act in ("extend-wait", "skip-missing", "drop-held")}
    acts[f"{path}/start-order"] = {**WHY, "last": 6}
    dialogs = [act.rpartition("/")[2].replace("-", "_") for act in acts]
    removed = [*RECEIVED, "msh_inboundconversation"]
    return Asked(removed, ["conversations/in"], acts, {row: dialogs})


DONE = {200, 201, 302}
ANSWERS = DONE | {404, 409}
SUBJECTS = (
    *(_links, _link, _partner, _delivery, _to_take, _to_settle, _job),
    *(_conversation_out, _conversation_in),
)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_removed_is_found_or_not(
    subject: Callable[[], Asked],
    operator: Application,
    administrator: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is 500, before whichever statement of an API document or action it is removed. A page
    is read from one snapshot, and a dialog calls what the API calls: a few statements will do."""
    administrator.raise_request_exception = False
    asked = subject()
    gone = remove(*asked.removed)
    asks: dict[str, Callable[[], int]] = {}
    pages: dict[str, Callable[[], int]] = {}
    for path in asked.documents:
        asks[path] = partial(_status, operator.get, path)
    for path, body in asked.acts.items():
        asks[path] = partial(_status, operator.post, path, body)
    for row, names in asked.pages.items():
        dialogs = [address(name, row) for name in names]
        for page in [url(type(row), "changelist"), url(type(row), "change", row.pk), *dialogs]:
            pages[page] = partial(_code, administrator.get, page)
        for page in dialogs:
            form = {**hidden(administrator.get(page)), **WHY, "last": 6}
            pages[f"POST {page}"] = partial(_code, administrator.post, page, form)
    found = {what: statuses(ask, gone, monkeypatch) for what, ask in asks.items()}
    found |= {page: statuses(get, gone, monkeypatch, few=True) for page, get in pages.items()}
    assert {what: got for what, got in found.items() if got - ANSWERS} == {}
    assert [what for what, got in found.items() if not got & DONE] == []


def _status(ask: Callable[..., Answer], *asked: object) -> int:
    return ask(*asked).status


def _code(ask: Callable[..., Any], *asked: object) -> int:
    code: int = ask(*asked).status_code
    return code
