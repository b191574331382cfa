"""Slots for POSTs, counted: who is known to answer has room whatever others do."""

from msh.transport.slots import Room, Slots, Standing

ANSWERS, SILENT = Standing.ANSWERS, Standing.SILENT


def make(at_once: int = 8, slow: int = 2, per_partner: int = 2) -> Slots:
    return Slots(at_once, slow, per_partner)


def known(slots: Slots, standing: Standing, *partners: int) -> None:
    for partner in partners:
        slots.leave(slots.enter(partner), standing)


def take_all(slots: Slots, partners: range) -> int:
    """As many as there is room for, one of each."""
    return len([slots.enter(partner) for partner in partners if slots.free(partner)])


def test_partners_that_are_not_known_to_answer_have_half_of_all() -> None:
    slots = make()
    known(slots, ANSWERS, 100, 101, 102)
    assert take_all(slots, range(20)) == 4
    assert (slots.free(21), slots.free_in_all()) == (0, 4)
    assert take_all(slots, range(100, 103)) == 3
    assert [slots.free(partner) for partner in (100, 101, 102)] == [1, 1, 1]


def test_silent_partners_leave_half_of_the_places_to_new_ones() -> None:
    slots = make()
    known(slots, SILENT, *range(20))
    assert take_all(slots, range(20)) == 2
    assert slots.full() == set(range(20)), "no poll is to find them, where others could be found"
    assert take_all(slots, range(30, 40)) == 2


def test_one_that_answers_again_is_no_longer_silent() -> None:
    slots = make()
    known(slots, SILENT, 1, 2, 3)
    take_all(slots, range(1, 3))
    assert slots.free(3) == 0
    known(slots, ANSWERS, 3)
    assert slots.free(3) == 2
    assert slots.full() == {1, 2}


def test_a_post_that_takes_long_leaves_its_place_while_there_are_slow_ones() -> None:
    slots = make(at_once=4, slow=1)
    known(slots, ANSWERS, 1)
    first, second = slots.enter(1), slots.enter(2)
    assert slots.free_in_all() == 2
    assert slots.slow_down(first)
    assert not slots.slow_down(second)
    assert (slots.free_in_all(), slots.under_way()) == (3, 2)
    assert slots.free(1) == 1, "it is silent until it answers"
    slots.leave(first, ANSWERS)
    slots.leave(second, None)
    assert (slots.free_in_all(), slots.under_way()) == (4, 0)
    assert (slots.free(1), slots.full()) == (2, set())


def test_a_partner_has_no_more_than_its_own_slots() -> None:
    slots = make(per_partner=2)
    known(slots, ANSWERS, 1)
    for _ in range(2):
        slots.enter(1)
    assert (slots.free(1), slots.full()) == (0, {1})
    slots.enter(1)
    assert slots.free(1) == 0
    slots.clear()
    assert (slots.free(1), slots.under_way()) == (2, 0)


def test_there_is_one_room_while_each_kind_has_enough() -> None:
    slots = make(at_once=40)
    known(slots, SILENT, 1)
    slots.enter(2)
    slots.enter(2)
    assert slots.rooms(enough=10) == [Room({2}, only=False, slots=38)]


def test_those_that_answer_have_a_room_of_their_own_when_new_ones_have_none() -> None:
    """A poll for all of them would find those that may not be sent anything."""
    slots = make()
    known(slots, ANSWERS, 100, 101)
    known(slots, SILENT, 200)
    assert take_all(slots, range(20)) == 4
    assert slots.rooms(enough=50) == [Room({100, 101}, only=True, slots=4)]
    slots.enter(100)
    slots.enter(100)
    assert slots.rooms(enough=50) == [Room({101}, only=True, slots=2)]


def test_new_and_silent_ones_have_what_is_left_of_theirs() -> None:
    slots = make()
    known(slots, ANSWERS, 100)
    known(slots, SILENT, 200, 201, 202)
    assert take_all(slots, range(200, 202)) == 2
    slots.enter(1)
    assert slots.rooms(enough=50) == [
        Room({100}, only=True, slots=5),
        Room({100, 200, 201, 202}, only=False, slots=1),
    ]


def test_there_is_no_place_when_no_more_are_taken() -> None:
    slots = make()
    slots.take_no_more()
    assert (slots.free(1), slots.free_in_all()) == (0, 0)
    assert [room.slots for room in slots.rooms(enough=50)] == [0]
