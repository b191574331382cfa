"""What the last answer of a partner says about the cause, and what an operator does about it."""

import re

import pytest

from msh.admin.framework.runbooks import RUNBOOKS
from msh.api.problem_types import PAGE
from msh.flows.operations.inspection.causes import ANSWERS, CAUSES, REFUSALS, Help, cause_of
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason, Refusal

SAY_NOTHING = {Reason.MAIL, Reason.OTHER, Reason.NONE}


@pytest.mark.parametrize("answer", sorted(set(Reason) - SAY_NOTHING))
def test_the_answer_decides_where_the_partner_was_silent(answer: Reason) -> None:
    assert cause_of(IncidentKind.RETRIES_SPENT, answer) is ANSWERS[answer]
    assert cause_of(IncidentKind.RESYNCHRONISE, answer) is CAUSES[IncidentKind.RESYNCHRONISE]


def test_an_answer_that_says_nothing_leaves_the_kind() -> None:
    for answer in SAY_NOTHING:
        silent = cause_of(IncidentKind.RETRIES_SPENT, answer)
        assert silent is CAUSES[IncidentKind.RETRIES_SPENT]
    assert cause_of("of a later version").advice == "Resume sending."


@pytest.mark.parametrize(
    ("kind", "answer", "first"),
    [
        (IncidentKind.RETRIES_SPENT, Reason.CREDENTIALS, Help.PARTNER),
        (IncidentKind.RETRIES_SPENT, Reason.NAME, Help.PARTNER),
        (IncidentKind.RETRIES_SPENT, Reason.CONNECTION, Help.CONNECTION),
        (IncidentKind.RETRIES_SPENT, Reason.SERVER_ERROR, Help.RESUME),
        (IncidentKind.RETRIES_SPENT, Reason.NUMBERS, Help.RESYNCHRONISE),
        (IncidentKind.RESYNCHRONISE, Reason.SERVER_ERROR, Help.RESYNCHRONISE),
        (IncidentKind.REFUSED_BY_PEER, Reason.MESSAGE, Help.MESSAGE),
    ],
)
def test_what_helps_first(kind: IncidentKind, answer: Reason, first: Help) -> None:
    assert cause_of(kind, answer).helps[0] is first


def test_every_cause_has_a_runbook() -> None:
    causes = (*CAUSES.values(), *ANSWERS.values(), *REFUSALS.values())
    named = {cause.runbook for cause in causes}
    assert named <= {page.stem for page in RUNBOOKS.glob("*.md")}


def test_every_refusal_has_a_text() -> None:
    """Of a partner in the table, of an application on the page of errors; some of both."""
    documented = set(re.findall(r"^## `(\w+)`", PAGE.read_text("utf-8"), re.MULTILINE))
    assert documented | REFUSALS.keys() == set(Refusal)
    assert documented - REFUSALS.keys() == {
        *(Refusal.PERMISSION, Refusal.NOT_FOUND, Refusal.INVALID, Refusal.CONFLICT),
        *(Refusal.MESSAGE_ID_REUSED, Refusal.CLOSED, Refusal.ENDED, Refusal.INTERNAL),
        *(Refusal.REMOVED, Refusal.FEED_RESTORED, Refusal.BEHIND_REFUSED, Refusal.CHANGED),
    }
    for cause in REFUSALS.values():
        assert cause.advice.endswith(".")
        assert "{" not in cause.advice
    assert not REFUSALS.keys() & CAUSES.keys()
