"""Error Messages that are strange, forged or late: noted, never answered, nothing lost."""

import pytest
from django.utils import timezone

from msh.allowance import refusals
from msh.flows.operations import cancel, change_link
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import History, Incident, OutboundLink, OutboundMessage, Signal
from msh.models.signal import SignalKind
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import ErrorCode, MessageType
from msh.transport.job import Job
from tests.peer import OMIT, Draft, acknowledgement, error

from .recovering import ANN
from .world import World, make_world

pytestmark = pytest.mark.django_db

CODES = [code for code in ErrorCode if code is not ErrorCode.TRANSIENT_ERROR]


def waiting() -> tuple[World, OutboundMessage, Job]:
    world = make_world()
    message, job = world.start()
    world.end(job)
    return world, message, job


def about(world: World, ref: str, code: str, **fields: object) -> Draft:
    """An Error Message of the partner, for the message `ref`."""
    ours, theirs = world.there.our_uri, world.there.uri
    pair = {"sender_uri": theirs, "receiver_uri": ours, "error_uri": theirs, "tpa_id": "tpa-1"}
    parties = {"from_party": theirs, "to_party": ours}
    return error(ref, code, **(pair | parties | fields))


def come(world: World, draft: Draft) -> None:
    answer = receive.receive(world.there, Incoming(draft.content_type, draft.body))
    assert answer.status == 204
    assert not Signal.objects.exists(), "an Error is never answered"


@pytest.mark.parametrize("kind", [kind for kind in MessageType if kind is not MessageType.NORMAL])
def test_a_signal_that_cannot_be_read_is_never_answered(kind: MessageType) -> None:
    world, message, _ = waiting()
    come(world, about(world, message.message_id, "", message_type=kind, timestamp="yesterday"))
    assert History.objects.filter(event=f"Partner{kind}Refused").exists()
    assert kind in SignalKind.values


@pytest.mark.requirement("000-016", "000-029", "000-084")
@pytest.mark.parametrize("code", [*CODES, "NeverHeardOf", "", "x" * 500], ids=str)
def test_every_code_but_one_suspends_and_keeps_what_it_says(code: str) -> None:
    world, message, _ = waiting()
    come(world, about(world, message.message_id, code, description="Fix your <crate>."))

    parted = code in ("SequenceConflict", "SequenceGap", "SequenceStale")
    incident = Incident.objects.get()
    assert incident.kind == ("resynchronise" if parted else "error_received")
    assert incident.detail.endswith(": Fix your <crate>.")
    assert incident.detail.startswith(code or "Unknown")
    assert (world.link.state, world.link.in_flight) == ("suspended", message)


def test_a_repeated_error_explains_a_suspension_once() -> None:
    world = make_world(retries=0)
    message, job = world.start()
    world.end(job)
    OutboundLink.objects.update(due=message.submitted_at)
    world.poll()
    assert Incident.objects.get().kind == "retries_spent"
    for _ in range(3):
        come(world, about(world, message.message_id, "SequenceGap", description="5 missing"))
    assert Incident.objects.get().detail.count("SequenceGap: 5 missing") == 1


@pytest.mark.requirement("000-080")
@pytest.mark.parametrize(
    ("min_retry_secs", "wait"),
    [
        ("-1", 60),
        ("soon", 60),
        (OMIT, 60),
        ("", 60),
        ("1.5", 60),
        ("0", 1),
        ("10", 10),
        ("1" + "0" * 12, 3600),
        ("9" * 18, 3600),
        ("9" * 5000, 60),
    ],
    ids=lambda value: str(value)[:16],
)
def test_requested_wait_is_bounded(min_retry_secs: object, wait: int) -> None:
    """D10, D54: unusable counts as absent, below 1 as 1, and a cap."""
    world, message, _ = waiting()
    come(
        world,
        about(world, message.message_id, "TransientError", min_retry_secs=min_retry_secs),
    )

    link = world.link
    assert (link.state, link.retries_spent) == ("transient", 0)
    note = History.objects.get(event="TransientErrorReceived", subject="message")
    assert link.due is not None
    assert round((link.due - note.at).total_seconds()) == wait


@pytest.mark.requirement("000-014")
@pytest.mark.parametrize("code", ["TransientError", "SequenceGap", "NotSupported", "NeverHeardOf"])
@pytest.mark.parametrize("ref", ["old", "unknown", "of another partner", "none", "endless"])
def test_an_error_for_another_message_never_touches_the_one_in_flight(code: str, ref: str) -> None:
    """D3."""
    world, other = make_world(), make_world()
    old = world.submit()
    world.settle()
    message, foreign = world.submit(), other.submit()
    world.poll()
    refs = {
        "old": old.message_id,
        "unknown": "never-sent",
        "of another partner": foreign.message_id,
        "none": OMIT,
        "endless": "x" * 10_000,
    }
    Signal.objects.all().delete()
    before = world.link.lane

    come(world, about(world, "any", code, ref_to_message_id=refs[ref]))

    assert world.link.lane == before
    old.refresh_from_db()
    message.refresh_from_db()
    assert (old.state, message.state) == ("acknowledged", "in_flight")
    assert not Incident.objects.exists()
    told = History.objects.filter(partner=world.there, event__regex="^(Partner)?Error")
    assert told.count() == 1


@pytest.mark.parametrize("code", ["TransientError", "SequenceGap", "NotSupported"])
def test_a_warning_about_the_message_in_flight_is_noted(code: str) -> None:
    """D26."""
    world, message, _ = waiting()
    before = world.link.lane

    come(world, about(world, message.message_id, code, severity="Warning"))

    assert world.link.lane == before
    assert not Incident.objects.exists()
    noted = History.objects.filter(message_id=message.message_id, event__startswith="Error")
    assert noted.count() == 1


def test_an_error_with_nothing_in_flight_is_noted(world: World) -> None:
    message = world.submit()
    world.settle()
    Signal.objects.all().delete()
    for code in ("TransientError", "NotSupported"):
        come(world, about(world, message.message_id, code))
    assert (world.link.state, Incident.objects.count()) == ("idle", 0)
    come(world, about(world, message.message_id, "SequenceStale"))
    assert (world.link.state, Incident.objects.get().kind) == ("idle", "resynchronise")


@pytest.mark.requirement("000-107")
def test_answer_names_the_place_and_the_cure(world: World) -> None:
    """Our own Errors, read back: code, Severity, Location, and a sentence."""
    message, job = world.start()
    for wrong, code, location, words in (
        (b"<SequenceNumber>7<", "SequenceGap", "RoutingHeader/SequenceNumber", "1 to 6 missing"),
        (b"<SequenceNumber>x<", "ValueNotRecognized", "RoutingHeader/SequenceNumber", "is 'x'"),
        (b"<TPAId>none<", "SecurityFailure", "TPAInfo/TPAId", "no agreement 'none'"),
    ):
        Signal.objects.all().delete()
        element = wrong.split(b">")[0] + b">"
        start = job.body.index(element)
        end = job.body.index(b"<", start + 1)
        body = job.body[:start] + wrong[:-1] + job.body[end:]
        receive.receive(world.here, Incoming(job.content_type, body))
        pending = Signal.objects.get()
        assert (pending.kind, pending.code) == ("Error", code)
        assert pending.ref_to_message_id == message.message_id
        assert pending.location.endswith(location)
        assert words in pending.description
    assert world.received() == []


def test_ack_of_another_partner_completes_nothing() -> None:
    """A partner that learns a MessageId must not settle what became of it."""
    _, message, _ = waiting()
    stranger = make_world()
    stranger.submit()
    cancel.cancel(message, Verdict.UNKNOWN, ANN)
    ours, theirs = stranger.there.our_uri, stranger.there.uri
    pair = {"sender_uri": theirs, "receiver_uri": ours, "error_uri": theirs, "tpa_id": "tpa-1"}
    ack = acknowledgement(message.message_id, from_party=theirs, to_party=ours, **pair)

    answer = receive.receive(stranger.there, Incoming(ack.content_type, ack.body))

    assert answer.status == 204
    message.refresh_from_db()
    assert (message.state, message.outcome, message.duplicate_acks) == ("cancelled", "unknown", 0)
    noted = History.objects.get(event="AckOfUnknownReceived")
    assert noted.partner == stranger.there


# --- beyond the allowance of what is noted --------------------------------------------------------


def spend_the_allowance(world: World) -> None:
    """As many refused messages do, just when numbers are out of step."""
    for _ in range(200):
        refusals.spend(world.there.pk)


def events_of(world: World) -> int:
    of_errors = History.objects.filter(event__endswith="ErrorReceived", partner_id=world.there.pk)
    return of_errors.count()


def test_an_error_explains_a_suspension_however_many_came_before() -> None:
    """An operator who resumes the lane without this would send the same number again."""
    world = make_world(retries=0)
    message, job = world.start()
    world.end(job)
    OutboundLink.objects.update(due=timezone.now())
    world.poll()
    assert world.link.suspended_for == "retries_spent"
    spend_the_allowance(world)

    come(world, about(world, message.message_id, "SequenceGap", description="5 is expected"))

    assert "SequenceGap: 5 is expected" in world.link.suspended_detail
    assert "SequenceGap" in Incident.objects.get().detail
    assert events_of(world) == 0


@pytest.mark.parametrize("suspended", [True, False])
def test_an_error_opens_its_incident_however_many_came_before(suspended: bool) -> None:
    world, message, job = waiting()
    if suspended:
        change_link.suspend(world.there, ANN)
    else:
        world.hand_over(job)
        world.settle()
        Signal.objects.all().delete()
        assert world.link.state == "idle"
    spend_the_allowance(world)

    for _ in range(3):
        come(world, about(world, message.message_id, "SequenceStale"))

    assert Incident.objects.get().kind == "resynchronise"
    assert events_of(world) == 0
