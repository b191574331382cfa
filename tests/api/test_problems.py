"""`type` of a problem document leads to a page that explains its code."""

import re
from functools import cache

import pytest
from django.test import Client

from msh.api.framework.problems import TITLES
from msh.api.problem_types import PAGE
from msh.protocol.reason import Refusal, refusal_of
from tests.api.application import Application

pytestmark = pytest.mark.django_db

_SECTION = re.compile(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^- (\w+): (.*(?:\n  .*)*)", re.MULTILINE)


@cache
def sections() -> dict[str, dict[str, str]]:
    text = PAGE.read_text(encoding="utf-8")
    return {code: dict(_ENTRY.findall(body)) for code, body in _SECTION.findall(text)}


def test_each_code_is_explained() -> None:
    assert set(sections()) == set(Refusal) - {
        # Of partners only.
        *(Refusal.NETWORK, Refusal.AGREEMENT, Refusal.PACKAGE),
    }
    for code, entries in sections().items():
        assert list(entries) == ["Status", "Cause", "Cure", "Retry"], code
        assert entries["Retry"] in ("yes", "no"), code


def test_statuses_are_those_that_are_sent() -> None:
    named = {
        (code, int(status))
        for code, entries in sections().items()
        for status in entries["Status"].split(", ")
    }
    assert {status for _, status in named} >= set(TITLES)
    for status in TITLES:
        assert status == 400 or (refusal_of(status), status) in named


def test_only_what_may_have_failed_by_chance_is_retried() -> None:
    for code, entries in sections().items():
        statuses = {int(status) for status in entries["Status"].split(", ")}
        by_chance = statuses <= {408, 429, 500, 503}
        assert (entries["Retry"] == "yes") == by_chance, code


def test_the_address_of_a_problem_is_a_section_that_anybody_can_read() -> None:
    address = Application("guessed").get("messages").json["type"]
    path, _, anchor = address.partition("#")
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/html")
    html = answer.content.decode()
    assert f'id="{anchor}"' in html
    for code in sections():
        assert f'<h2 id="{code}">' in html
