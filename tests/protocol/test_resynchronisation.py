"""What is told, and done, when the numbers of two MSHs are out of sync."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol.events import Numbered
from msh.protocol.link_status import LinkStatus, as_typed, of_typed
from msh.protocol.resynchronisation import Arriving, Repair, Run, Sent, arriving, plan

LAST = 999_999_999


def run(first: int, last: int, epoch: int = 1, missing: int = 0) -> Run:
    return Run(epoch, first, last, last - first + 1 - missing)


# We have sent 1 to 41, each acknowledged; 42 is next.
OURS = Sent(42, anchor=Numbered(41, 1))
FLYING = replace(OURS, next_number=43, in_flight_number=42, in_flight_message_id="m42")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (OURS, LinkStatus(41, "m41")),
        (FLYING, LinkStatus(41, "m41")),
        (Sent(1), LinkStatus(None, "")),
        (Sent(1, anchor=Numbered(LAST, 1)), LinkStatus(LAST, "m")),
        (Sent(1, anchor=Numbered(41, 1)), LinkStatus(41, "m41")),
    ],
)
def test_numbers_that_agree_need_nothing(ours: Sent, theirs: LinkStatus) -> None:
    made = plan(ours, theirs)
    assert (made.repair, made.changes, made.lost, made.duplicated) == (
        Repair.NOTHING,
        False,
        "",
        "",
    )


def test_a_message_whose_ack_was_lost_is_completed() -> None:
    ours = replace(FLYING, anchor=Numbered(42, 1))
    made = plan(ours, LinkStatus(42, "m42"))
    assert (made.repair, made.completes, made.changes) == (Repair.NOTHING, True, True)
    assert (
        made.text
        == "The partner has number 42; its Acknowledgement was lost. The next number is 43."
    )


def test_a_message_whose_ack_is_withheld_is_waited_for() -> None:
    """D20: the partner has it, but not the MSH behind the partner."""
    ours = replace(FLYING, anchor=Numbered(42, 1))
    made = plan(ours, LinkStatus(42, "m42", withheld=("m42",)))
    assert (made.repair, made.completes, made.changes) == (Repair.NOTHING, False, False)
    assert "acknowledges when the next MSH has" in made.text


@pytest.mark.parametrize("flying", [False, True])
def test_a_restored_partner_is_sent_again_what_it_lost(flying: bool) -> None:
    end = 42 if flying else 41
    ours = replace(FLYING if flying else OURS, anchor=Numbered(35, 1), after_anchor=(run(36, end),))
    made = plan(ours, LinkStatus(35, "m35"))
    assert (made.repair, made.last, made.lost) == (Repair.REWIND, Numbered(35, 1), "")
    assert f"Numbers 36 to {end} ({end - 35} in all) are sent again" in made.text
    assert "has nothing after number 35: it was restored from a backup, or it is a new" in made.text
    assert made.duplicated.startswith(f"numbers 36 to {end}, in the partner's")


@pytest.mark.parametrize(("epoch", "lost"), [(1, False), (2, True)])
def test_a_partner_that_lost_everything_is_sent_all_that_is_there(epoch: int, lost: bool) -> None:
    made = plan(Sent(4, after_anchor=(run(1, 3, epoch),)), LinkStatus(None, ""))
    assert (made.repair, made.last) == (Repair.REWIND, Numbered(0, epoch))
    assert bool(made.lost) is lost


@pytest.mark.requirement("000-046")
def test_a_rewind_goes_over_the_wrap_around() -> None:
    again = (run(LAST, LAST, 3), run(1, 2, 4))
    ours = Sent(3, anchor=Numbered(LAST - 1, 3), after_anchor=again)
    made = plan(ours, LinkStatus(LAST - 1, "m"))
    assert (made.repair, made.last) == (Repair.REWIND, Numbered(LAST - 1, 3))


def test_a_rewind_goes_over_a_reset() -> None:
    again = (run(41, 41), run(1, 1, epoch=2))
    ours = Sent(2, anchor=Numbered(40, 1), after_anchor=again)
    assert plan(ours, LinkStatus(40, "m")).repair is Repair.REWIND


def test_a_rewind_goes_over_a_number_that_was_adopted_without_a_gap() -> None:
    again = (run(41, 44), run(45, 50, epoch=2))
    ours = Sent(51, anchor=Numbered(40, 1), after_anchor=again)
    assert plan(ours, LinkStatus(40, "m")).repair is Repair.REWIND


@pytest.mark.parametrize(
    ("anchor", "again", "missing"),
    [
        (Numbered(35, 1), (run(38, 41),), "numbers 36 to 37"),
        (Numbered(35, 1), (run(36, 41, missing=1),), "some of the numbers 36 to 41"),
        (None, (run(2, 4),), "numbers 1 to 1"),
        (Numbered(35, 1), (run(36, 36), run(45, 50, epoch=2)), "numbers 37 to 44"),
    ],
)
def test_pruned_message_cannot_be_sent_again(
    anchor: Numbered | None, again: tuple[Run, ...], missing: str
) -> None:
    ours = Sent(42, anchor=anchor, after_anchor=again)
    theirs = LinkStatus(anchor.sequence_number, "m35") if anchor else LinkStatus(None, "")
    made = plan(ours, theirs)
    assert (made.repair, made.changes) == (Repair.ASK, False)
    assert made.lost == missing


def test_a_restored_sender_goes_on_where_the_partner_is() -> None:
    made = plan(replace(OURS, anchor=None), LinkStatus(50, "forgotten"))
    assert (made.repair, made.next_number, made.completes) == (Repair.ADOPT, 51, False)
    assert "numbers 42 to 50" in made.lost
    assert made.duplicated


@pytest.mark.parametrize(
    "ours",
    [
        replace(OURS, after_anchor=(run(1, 41),), anchor=None),  # its last one is none of ours
        replace(OURS, after_anchor=(run(1, 41),)),  # or has another number there
    ],
)
def test_message_the_partner_may_have_is_not_sent_again(ours: Sent) -> None:
    made = plan(ours, LinkStatus(50, "other"))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 51)


@pytest.mark.parametrize("typed", [40, 14])
def test_a_message_id_of_ours_under_another_number_is_asked_for_again(typed: int) -> None:
    """A number that is typed in may be a slip."""
    made = plan(OURS, LinkStatus(typed, "m41"))
    assert (made.repair, made.changes) == (Repair.ASK, False)
    assert f"number {typed} last, as m41, which has number 41 here" in made.text


def test_reused_number_shows_that_we_were_restored() -> None:
    """Its copy was a duplicate there, so its number is the one it was accepted with first."""
    made = plan(OURS, LinkStatus(50, "m41"))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 51)
    assert "under a MessageId that has number 41 here: this MSH was restored" in made.text


@pytest.mark.parametrize(
    ("anchor", "why"), [(None, "is unknown here"), (Numbered(40, 1), "has number 40 here")]
)
def test_numbers_that_agree_over_different_messages_say_so(
    anchor: Numbered | None, why: str
) -> None:
    made = plan(replace(OURS, anchor=anchor), LinkStatus(41, "other"))
    assert (made.repair, made.changes) == (Repair.NOTHING, False)
    assert made.lost == f"what the partner has under number 41: its MessageId, other, {why}"


def test_a_partner_that_lost_everything_starts_at_1_if_nothing_is_stored() -> None:
    made = plan(OURS, LinkStatus(None, ""))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 1)
    assert made.lost


def test_lost_ack_completes_beside_other_repairs() -> None:
    """The message in flight had the number 42, and our next is one that the partner cannot take."""
    ours = replace(FLYING, next_number=45, anchor=Numbered(42, 1))
    made = plan(ours, LinkStatus(42, "m42"))
    assert (made.repair, made.next_number, made.completes) == (Repair.ADOPT, 43, True)
    restarted = plan(replace(ours, next_number=1), LinkStatus(42, "m42"))
    assert (restarted.repair, restarted.completes) == (Repair.NOTHING, True)


def test_over_the_wrap_around_the_partner_is_still_ahead() -> None:
    made = plan(Sent(LAST - 1), LinkStatus(2, "forgotten"))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 3)
    assert f"numbers {LAST - 1} to 2" in made.lost


@pytest.mark.parametrize(("has", "completes"), [(True, True), (False, False)])
def test_of_the_message_in_flight_the_partners_word_decides(has: bool, completes: bool) -> None:
    ours = replace(FLYING, anchor=None)
    made = plan(ours, LinkStatus(50, "forgotten", known={"m42": has}))
    assert (made.repair, made.next_number, made.completes) == (Repair.ADOPT, 51, completes)
    assert f"numbers {43 if completes else 42} to 50" in made.lost


def test_in_doubt_a_person_is_asked_and_nothing_changes() -> None:
    made = plan(replace(FLYING, anchor=None), LinkStatus(50, "forgotten"))
    assert (made.repair, made.changes) == (Repair.ASK, False)
    assert "--has or --lacks m42" in made.text
    assert made.verdict == "not known yet"


def test_before_numbers_are_adopted_the_message_in_flight_is_asked_for() -> None:
    """The partner is behind, and nothing between is ours to send again."""
    made = plan(replace(FLYING, anchor=Numbered(30, 1)), LinkStatus(30, "m30"))
    assert (made.repair, made.changes) == (Repair.ASK, False)
    assert "The partner accepted number 30" in made.text
    assert "--has or --lacks m42" in made.text


small = st.integers(1, 4)
runs = st.lists(st.builds(Run, small, small, small, small), max_size=2).map(tuple)
words = st.dictionaries(st.just("flying"), st.booleans())


@given(
    ours=st.builds(Sent, small, small, st.just("flying"), st.builds(Numbered, small, small), runs),
    theirs=st.builds(LinkStatus, small, st.sampled_from(["flying", "other"]), known=words),
)
def test_numbers_never_change_under_a_message_of_which_nothing_is_known(
    ours: Sent, theirs: LinkStatus
) -> None:
    """Whatever a person types in: what was in flight is either done or goes again."""
    made = plan(ours, theirs)
    if made.repair is Repair.ADOPT:
        assert theirs.has("flying") is made.completes
    if made.repair is Repair.ASK and "--has" in made.text:
        assert theirs.has("flying") is None


def test_a_number_in_flight_that_the_partner_gave_to_another_message() -> None:
    """We were restored and have sent another message under its last number: SequenceConflict."""
    made = plan(replace(FLYING, anchor=None), LinkStatus(42, "other", known={"m42": False}))
    assert (made.repair, made.next_number, made.completes) == (Repair.ADOPT, 43, False)


def test_lost_and_pruned_messages_are_named() -> None:
    made = plan(replace(OURS, anchor=None), LinkStatus(7, "pruned"))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 8)
    assert made.lost == "our numbers after 7: the partner does not have them"


def test_numbers_given_up_by_a_cancellation_are_adopted_back() -> None:
    """Our numbers have a hole that no message fills."""
    made = plan(Sent(45, anchor=Numbered(41, 1)), LinkStatus(41, "m41"))
    assert (made.repair, made.next_number) == (Repair.ADOPT, 42)


@pytest.mark.parametrize(
    ("expected", "coming", "has", "verdict"),
    [
        (42, 42, False, Arriving.AGREED),
        (42, 41, True, Arriving.AGREED),
        (42, 45, False, Arriving.WE_LACK),
        (42, 40, False, Arriving.THEY_FORGOT),
        (42, 1, False, Arriving.RESTARTED),
        (LAST, 2, False, Arriving.WE_LACK),
        (2, LAST, False, Arriving.THEY_FORGOT),
        (42, None, False, Arriving.UNKNOWN),
    ],
)
def test_arriving_message(expected: int, coming: int | None, has: bool, verdict: Arriving) -> None:
    status = LinkStatus(None, "", next_number=coming)
    outcome, text = arriving(expected, status, has)
    assert outcome is verdict
    assert text.endswith(".")


def test_message_in_flight_to_us_comes_first() -> None:
    status = LinkStatus(None, "", next_number=46, in_flight_number=45, in_flight_message_id="x")
    verdict, text = arriving(42, status, has_in_flight=False)
    assert verdict is Arriving.WE_LACK
    assert "we lack 42 to 44" in text


def test_what_an_operator_typed_is_kept_as_values_of_json() -> None:
    typed = LinkStatus(7, "last", known={"last": True, "other": False})
    assert of_typed(json.loads(json.dumps(as_typed(typed)))) == typed
