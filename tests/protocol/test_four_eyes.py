"""Which acts need a second person, and when one may confirm."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from msh.protocol.four_eyes import (
    Act,
    Alone,
    Approval,
    Confirmed,
    Decision,
    NotAllowed,
    Request,
    Verb,
    decide,
    needs_second_person,
    parse_rules,
    require_confirmable,
    require_open,
)

NOW = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
ACT = Act(Verb.EXPECT, "expect", {"partner": 1, "number": 7}, "the last number is 3")
REQUEST = Request("ann", NOW + timedelta(seconds=1))


def test_rules_name_verbs_and_roles() -> None:
    rules = parse_rules(["reset", "unknown: Operator | Supervisor"])
    assert rules == {Verb.RESET: frozenset(), Verb.UNKNOWN: frozenset({"Operator", "Supervisor"})}
    assert parse_rules(["all:Operator"]) == dict.fromkeys(Verb, frozenset({"Operator"}))
    assert parse_rules([]) == {}
    with pytest.raises(ValueError, match=r"'restart' is not one of all, unknown, reset"):
        parse_rules(["restart"])


@pytest.mark.parametrize(
    ("verb", "roles", "needed"),
    [
        (Verb.PRUNE, frozenset({"Operator"}), False),
        (Verb.RESET, frozenset(), True),
        (Verb.RESET, None, True),
        (Verb.UNKNOWN, frozenset({"Operator", "Viewer"}), True),
        (Verb.UNKNOWN, frozenset({"Supervisor"}), False),
        (Verb.UNKNOWN, frozenset(), False),
        (Verb.UNKNOWN, None, True),
    ],
)
def test_a_rule_is_for_everybody_or_for_its_roles_and_commands(
    verb: Verb, roles: frozenset[str] | None, needed: bool
) -> None:
    rules = {Verb.RESET: frozenset[str](), Verb.UNKNOWN: frozenset({"Operator"})}
    assert needs_second_person(rules, verb, roles) is needed


@pytest.mark.parametrize(
    ("approval", "needed", "decision"),
    [
        (None, False, Decision.GO),
        (None, True, Decision.ASK),
        (Alone("night"), False, Decision.GO),
        (Alone("night"), True, Decision.GO_ALONE),
        (Confirmed(ACT), True, Decision.GO),
    ],
)
def test_an_act_goes_is_asked_for_or_goes_alone(
    approval: Approval | None, needed: bool, decision: Decision
) -> None:
    assert decide(ACT, approval, needed=needed, may_alone=True) is decision


def test_who_may_not_does_not_go_alone() -> None:
    with pytest.raises(NotAllowed, match="you may not go ahead alone"):
        decide(ACT, Alone("night"), needed=True, may_alone=False)


@pytest.mark.parametrize(
    ("confirmed", "why"),
    [
        (replace(ACT, verb=Verb.RESET), "another act"),
        (replace(ACT, name="skip_missing"), "another act"),
        (replace(ACT, parameters={"partner": 1, "number": 8}), "other parameters"),
        (replace(ACT, facts="the last number is 2"), "It was: the last number is 2. It is now: "),
    ],
)
def test_only_what_was_confirmed_is_done(confirmed: Act, why: str) -> None:
    with pytest.raises(NotAllowed, match=why):
        decide(ACT, Confirmed(confirmed), needed=True, may_alone=True)


def test_another_person_confirms_in_time() -> None:
    require_confirmable(REQUEST, "sue", permitted=True, now=NOW)


@pytest.mark.parametrize(
    ("request_", "person", "permitted", "now", "why"),
    [
        (REQUEST, "ann", True, NOW, "your own request"),
        (REQUEST, "Ann", True, NOW, "your own request"),
        (REQUEST, "sue", False, NOW, "do not have the permissions"),
        (REQUEST, "sue", True, REQUEST.until, "has lapsed"),
        (replace(REQUEST, ended="refused"), "sue", True, NOW, "was already refused"),
    ],
)
def test_nobody_else_does(
    request_: Request, person: str, permitted: bool, now: datetime, why: str
) -> None:
    with pytest.raises(NotAllowed, match=why):
        require_confirmable(request_, person, permitted=permitted, now=now)


def test_who_has_asked_may_withdraw_it_while_it_is_open() -> None:
    require_open(REQUEST, NOW)
