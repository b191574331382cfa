from collections import Counter

import pytest

from demo.faults import Fault, Rates, Schedule


def test_the_same_seed_deals_the_same_fates() -> None:
    def fates(seed: int) -> list[object]:
        schedule = Schedule(seed, Rates())
        return [schedule.decide("lane", "Normal", ordinal) for ordinal in range(200)]

    assert fates(7) == fates(7)
    assert fates(7) != fates(8)


def test_every_fault_comes_at_its_rate() -> None:
    rates = Rates()
    schedule = Schedule(1, rates)
    dealt = Counter(schedule.decide("lane", "Normal", ordinal).fault for ordinal in range(20_000))
    for name in Rates.names():
        share = dealt[Fault[name.upper()]] / 20_000
        assert share == pytest.approx(getattr(rates, name), abs=0.01)


def test_rates_of_none_pass_everything() -> None:
    schedule = Schedule(1, Rates(*[0.0] * len(Rates.names())))
    assert {schedule.decide("lane", "Normal", n).fault for n in range(500)} == {Fault.PASS}


@pytest.mark.parametrize("rates", [{"reset": -0.1}, {"delay": 0.9, "reset": 0.2}])
def test_rates_that_are_no_shares_are_refused(rates: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares"):
        Rates(**rates)


def test_the_default_rates_disturb_more_than_the_demo_promises() -> None:
    assert Rates().disturbed > 0.3
