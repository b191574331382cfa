"""Roles and names, as providers send them."""

from typing import Any

import pytest
from django.test import Client

from msh.sign_on.claims import name_of, roles_of

MAPPING = {"ops": "Operator", "all": "Viewer"}


@pytest.mark.parametrize(
    ("claims", "claim", "expected"),
    [
        ({"groups": ["ops", "all", "x"]}, "groups", {"Operator", "Viewer"}),
        ({"groups": "ops"}, "groups", {"Operator"}),
        ({"realm_access": {"roles": ["ops"]}}, "realm_access.roles", {"Operator"}),
        ({"https://x.example/roles": ["ops"]}, "https://x.example/roles", {"Operator"}),
        ({"groups": ["OPS"]}, "groups", set()),
        ({"groups": [["ops"], 1, None]}, "groups", set()),
        ({"groups": {"ops": True}}, "groups", set()),
        ({"groups": "ops all"}, "groups", set()),
        ({}, "groups", set()),
        ({"realm_access": "roles"}, "realm_access.roles", set()),
    ],
)
def test_roles_are_those_of_known_values(
    claims: dict[str, Any], claim: str, expected: set[str]
) -> None:
    assert roles_of(claims, claim, MAPPING) == expected


@pytest.mark.django_db
def test_page_of_the_log_in_is_as_before_without_a_provider() -> None:
    assert "sign-on" not in Client().get("/admin/login/").content.decode()


@pytest.mark.parametrize("name", ["", " ", "x" * 151, None, ["ann"]])
def test_name_that_no_user_can_have(name: Any) -> None:
    assert name_of({"name": name}, "name") == ""
