"""Places for POSTs, counted: who is known to answer has room whatever others do."""

from msh.transport.places import Places, Room, Standing

ANSWERS, SILENT = Standing.ANSWERS, Standing.SILENT


def make(at_once: int = 8, slow: int = 2, per_partner: int = 2) -> Places:
    return Places(at_once, slow, per_partner)


def known(places: Places, standing: Standing, *partners: int) -> None:
    for partner in partners:
        places.leave(places.take(partner), standing)


def take_all(places: Places, partners: range) -> int:
    """As many as there is room for, one of each."""
    return len([places.take(partner) for partner in partners if places.free(partner)])


def test_partners_that_are_not_known_to_answer_have_half_of_all() -> None:
    places = make()
    known(places, ANSWERS, 100, 101, 102)
    assert take_all(places, range(20)) == 4
    assert (places.free(21), places.free_in_all()) == (0, 4)
    assert take_all(places, range(100, 103)) == 3
    assert [places.free(partner) for partner in (100, 101, 102)] == [1, 1, 1]


def test_silent_partners_leave_half_of_the_places_to_new_ones() -> None:
    places = make()
    known(places, SILENT, *range(20))
    assert take_all(places, range(20)) == 2
    assert places.full() == set(range(20)), "no poll is to find them, where others could be found"
    assert take_all(places, range(30, 40)) == 2


def test_one_that_answers_again_is_no_longer_silent() -> None:
    places = make()
    known(places, SILENT, 1, 2, 3)
    take_all(places, range(1, 3))
    assert places.free(3) == 0
    known(places, ANSWERS, 3)
    assert places.free(3) == 2
    assert places.full() == {1, 2}


def test_a_post_that_takes_long_leaves_its_place_while_there_are_slow_ones() -> None:
    places = make(at_once=4, slow=1)
    known(places, ANSWERS, 1)
    first, second = places.take(1), places.take(2)
    assert places.free_in_all() == 2
    assert places.slow_down(first)
    assert not places.slow_down(second)
    assert (places.free_in_all(), places.under_way()) == (3, 2)
    assert places.free(1) == 1, "it is silent until it answers"
    places.leave(first, ANSWERS)
    places.leave(second, None)
    assert (places.free_in_all(), places.under_way()) == (4, 0)
    assert (places.free(1), places.full()) == (2, set())


def test_a_partner_has_no_more_than_its_own_places() -> None:
    places = make(per_partner=2)
    known(places, ANSWERS, 1)
    for _ in range(2):
        places.take(1)
    assert (places.free(1), places.full()) == (0, {1})
    places.take(1)
    assert places.free(1) == 0
    places.clear()
    assert (places.free(1), places.under_way()) == (2, 0)


def test_there_is_one_room_while_each_kind_has_enough() -> None:
    places = make(at_once=40)
    known(places, SILENT, 1)
    places.take(2)
    places.take(2)
    assert places.rooms(enough=10) == [Room({2}, only=False, places=38)]


def test_those_that_answer_have_a_room_of_their_own_when_new_ones_have_none() -> None:
    """A poll for all of them would find those that may not be sent anything."""
    places = make()
    known(places, ANSWERS, 100, 101)
    known(places, SILENT, 200)
    assert take_all(places, range(20)) == 4
    assert places.rooms(enough=50) == [Room({100, 101}, only=True, places=4)]
    places.take(100)
    places.take(100)
    assert places.rooms(enough=50) == [Room({101}, only=True, places=2)]


def test_new_and_silent_ones_have_what_is_left_of_theirs() -> None:
    places = make()
    known(places, ANSWERS, 100)
    known(places, SILENT, 200, 201, 202)
    assert take_all(places, range(200, 202)) == 2
    places.take(1)
    assert places.rooms(enough=50) == [
        Room({100}, only=True, places=5),
        Room({100, 200, 201, 202}, only=False, places=1),
    ]


def test_there_is_no_place_when_no_more_are_taken() -> None:
    places = make()
    places.take_no_more()
    assert (places.free(1), places.free_in_all()) == (0, 0)
    assert [room.places for room in places.rooms(enough=50)] == [0]
