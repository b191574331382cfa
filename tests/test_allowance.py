"""How often somebody may do what nobody should do without end."""

from msh.allowance import REMEMBERED, Allowance, Known

BURST, REFILL = 100, 2.0


def allowance() -> Allowance[str]:
    return Allowance(BURST, REFILL)


def test_an_address_has_so_many_guesses_and_then_some_each_second() -> None:
    guesses = allowance()
    for _ in range(BURST):
        assert guesses.wait("192.0.2.1", now=100.0) == 0
        guesses.spend("192.0.2.1", now=100.0)
    assert guesses.wait("192.0.2.1", now=100.0) > 0
    assert guesses.wait("192.0.2.2", now=100.0) == 0
    assert guesses.wait("192.0.2.1", now=100.0 + 1 / REFILL) == 0


def test_it_is_forgotten_with_time() -> None:
    guesses = allowance()
    for _ in range(BURST):
        guesses.spend("192.0.2.1", now=100.0)
    for _ in range(BURST):
        assert guesses.wait("192.0.2.1", now=100.0 + BURST / REFILL) == 0
        guesses.spend("192.0.2.1", now=100.0 + BURST / REFILL)


def test_addresses_without_number_are_not_kept() -> None:
    guesses = allowance()
    for number in range(3 * REMEMBERED):
        guesses.spend(str(number), now=100.0)
    assert len(guesses) <= REMEMBERED


def test_what_is_known_is_read_again_when_it_is_old() -> None:
    stored = ["one"]
    known = Known(lambda: stored, seconds=3600)
    assert ("one" in known, "two" in known) == (True, False)
    stored.append("two")
    assert "two" not in known, "each guess would be a read"
    known.forget()
    assert "two" in known


def test_of_too_many_the_oldest_are_forgotten() -> None:
    """One who makes many of himself frees nobody who guessed lately."""
    guesses = allowance()
    guesses.spend("early", now=100.0, count=BURST)
    for number in range(REMEMBERED):
        if number == REMEMBERED // 2:
            guesses.spend("guesser", now=100.0, count=BURST)
        guesses.spend(str(number), now=100.0)
    assert guesses.wait("early", now=100.0) == 0
    assert guesses.wait("guesser", now=100.0) > 0
