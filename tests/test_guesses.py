"""How often an address may show what nobody knows."""

from msh.guesses import BURST, REFILL, REMEMBERED, Guesses


def test_an_address_has_so_many_guesses_and_then_some_each_second() -> None:
    guesses = Guesses()
    for _ in range(BURST):
        assert guesses.wait("192.0.2.1", now=100.0) == 0
        guesses.failed("192.0.2.1", now=100.0)
    assert guesses.wait("192.0.2.1", now=100.0) > 0
    assert guesses.wait("192.0.2.2", now=100.0) == 0
    assert guesses.wait("192.0.2.1", now=100.0 + 1 / REFILL) == 0


def test_it_is_forgotten_with_time() -> None:
    guesses = Guesses()
    for _ in range(BURST):
        guesses.failed("192.0.2.1", now=100.0)
    for _ in range(BURST):
        assert guesses.wait("192.0.2.1", now=100.0 + BURST / REFILL) == 0
        guesses.failed("192.0.2.1", now=100.0 + BURST / REFILL)


def test_addresses_without_number_are_not_kept() -> None:
    guesses = Guesses()
    for number in range(3 * REMEMBERED):
        guesses.failed(str(number), now=100.0)
    assert len(guesses) <= REMEMBERED
