"""Changes of the configuration take a reason and are recorded: who, from what to what, why."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from msh.admin.framework.audited import AuditHistory
from msh.models import ApiToken, Consumer, ConsumerKind, SettingChange
from partners.models import Agreement, Credential, Partner, Route
from tests.admin.conftest import client_of
from tests.admin.setup.test_partner import AGREEMENT, form
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

WHY = "their new data centre"


def address(row: Any, page: str = "change") -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_{page}", args=[row.pk])


def kept() -> list[tuple[Any, ...]]:
    """Who, what, of what kind; then from what to what."""
    fields = ("actor", "what", "kind", "name", "before", "after", "reason")
    return list(SettingChange.objects.values_list(*fields))


def test_an_agreement_is_changed_on_its_partners_page(world: World, administrator: Client) -> None:
    agreement = world.agreement
    fields = {"id": agreement.pk, "partner": world.there.pk, "retries": 7}
    data = form(
        name=world.there.name,
        uri=world.there.uri,
        our_uri=world.there.our_uri,
        agreements=[{**AGREEMENT, "our_party": "111", "their_party": "222", **fields}],
        reason=WHY,
    ) | {"agreements-INITIAL_FORMS": 1}

    response = administrator.post(address(world.there), data)

    assert response.status_code == 302
    changed = ("root", "changed", "Agreement", f"tpa-1 of {world.there}")
    assert kept() == [(*changed, {"retries": 3}, {"retries": 7}, WHY)]


def test_without_a_reason_nothing_is_changed(administrator: Client) -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")

    for reason in ("", "  "):
        data = form(address="http://moved.example/", reason=reason)
        response = administrator.post(address(partner), data)
        assert "reason" in response.context["adminform"].form.errors

    partner.refresh_from_db()
    assert (partner.address, kept()) == ("", [])


def test_change_of_a_secret_is_recorded_without_the_secret(administrator: Client) -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    shown = {"outgoing_kind": "bearer", "reason": WHY}
    credential = {"kind": "bearer", "label": "first"}

    administrator.post(address(partner), form(secret="t0p", credentials=[credential], **shown))
    administrator.post(address(partner), form(secret="n3w", **shown))

    kinds = [(what, kind) for _, what, kind, *_ in kept()]
    assert kinds == [("changed", "Partner"), ("added", "Credential"), ("changed", "Partner")]
    hidden = {"outgoing_secret": "(not shown)"}
    assert kept()[2][4:6] == (hidden, hidden)
    partner.refresh_from_db()
    secrets = [partner.outgoing_secret, Credential.objects.get().sha256]
    assert not [secret for secret in secrets if secret in str(kept())]


def test_rows_are_removed_one_by_one_with_a_reason(administrator: Client) -> None:
    route = Route.objects.create(to_party="333", partner=make_world().there)
    remove = address(route, "delete")

    administrator.post(remove, {"post": "yes", "reason": " "})
    assert Route.objects.exists()
    assert 'name="reason"' in administrator.get(remove).content.decode()
    assert (
        "delete_selected"
        not in administrator.get(reverse("admin:partners_route_changelist")).content.decode()
    )
    administrator.post(remove, {"post": "yes", "reason": WHY})

    assert not Route.objects.exists()
    ((actor, what, kind, _, before, after, reason),) = kept()
    assert (actor, what, kind, after, reason) == ("root", "removed", "Route", {}, WHY)
    assert before["to_party"] == "333"


def test_a_consumer_a_token_and_a_role_are_recorded(administrator: Client) -> None:
    user = User.objects.create_user("kim", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="submit_outboundmessage"))
    consumer = {
        "name": "orders", "enabled": "on", "kind": "pull", "history": "on", "lease": 60,
        "attempts": 3, "retry_interval": 60, "on_failure": "block", "reason": WHY,
    }  # fmt: skip
    token = {"name": "spark", "user": user.pk, "scopes": ["send"], "reason": WHY}
    role = Group.objects.get(name="Operator")
    member = {
        "username": "kim", "is_active": "on", "groups": [role.pk],
        "user_permissions": [one.pk for one in user.user_permissions.all()],
        "date_joined_0": "2026-11-21", "date_joined_1": "12:00:00", "reason": WHY,
    }  # fmt: skip

    administrator.post(reverse("admin:msh_consumer_add"), consumer)
    administrator.post(reverse("admin:msh_apitoken_add"), token)
    administrator.post(address(user), member)

    assert Consumer.objects.exists()
    secret = ApiToken.objects.get().sha256
    assert [(what, kind) for _, what, kind, *_ in kept()] == [
        ("added", "Consumer"), ("added", "API token"), ("changed", "User"),
    ]  # fmt: skip
    before, after = kept()[2][4:6]
    assert (before["groups"], after["groups"]) == ([], ["Operator"])
    assert secret not in str(kept())


def test_a_new_password_is_recorded(administrator: Client) -> None:
    user = User.objects.create_user("kim", password="0ld-and-long")
    passwords = {"password1": "n3w-and-longer", "password2": "n3w-and-longer"}

    administrator.post(
        reverse("admin:auth_user_password_change", args=[user.pk]),
        {**passwords, "usable_password": "true"},
    )

    user.refresh_from_db()
    assert user.check_password("n3w-and-longer")
    hidden = {"password": "(not shown)"}
    assert kept()[0][:6] == ("root", "changed", "User", "kim", hidden, hidden)


def test_history_of_a_row_shows_who_changed_it_and_why() -> None:
    row = Consumer.objects.create(name="pricing", kind=ConsumerKind.PULL)
    seller = client_of("sue", "view_consumer", "change_consumer")
    off = {
        "name": "pricing", "kind": "pull", "history": "on", "lease": row.lease,
        "attempts": row.attempts, "retry_interval": row.retry_interval, "on_failure": "block",
        "reason": "wrong prices",
    }  # fmt: skip
    assert seller.post(address(row), off).status_code == 302

    viewer = client_of("vera", "view_consumer")
    (entry,) = viewer.get(address(row, "history")).context["tables"][0].rows
    assert (entry[1], entry[3], "Consumer pricing" in str(entry[2])) == ("sue", "Changed", True)
    assert "enabled: true → false" in str(entry[4])
    assert "wrong prices" in str(entry[5])
    page = viewer.get(address(row, "history")).content.decode()
    assert reverse("admin:msh_settingchange_changelist") not in page
    stranger = client_of("eve", "view_partner")
    assert stranger.get(address(row, "history")).status_code == 403


def test_history_of_a_partner_has_its_agreements_and_what_was_removed(
    world: World,
    administrator: Client,
) -> None:
    for kind, name in (
        ("Agreement", f"{world.agreement.tpa_id} of {world.there.name}"),
        ("Credential", f"bearer first of {world.there.name}"),
        ("Partner", world.there.name),
        ("Partner", "another"),
        ("Consumer", world.there.name),
    ):
        SettingChange.objects.create(
            actor="ann", what="changed", kind=kind, name=name, before={}, after={}, reason=WHY
        )

    def about(row: Any) -> list[str]:
        table = administrator.get(address(row, "history")).context["tables"][0]
        return [strip_tags(str(cells[2])).split()[0] for cells in table.rows]

    assert about(world.there) == ["Partner", "Credential", "Agreement"]
    assert about(world.agreement) == ["Agreement"]
    for page, row in (
        (address(world.agreement), world.agreement),
        (reverse("partner_page", args=[world.there.pk]), world.there),
    ):
        assert address(row, "history") in administrator.get(page).content.decode()


def test_history_without_a_row_to_read_is_empty() -> None:
    SettingChange.objects.create(
        actor="ann", what="changed", kind="Partner", name="acme", before={}, after={}, reason=WHY
    )
    page = admin.site.get_model_admin(Route)
    assert isinstance(page, AuditHistory)
    assert not SettingChange.objects.filter(page.entries(0)).exists()


def test_the_changes_are_read_in_the_console_and_nowhere_changed(administrator: Client) -> None:
    Agreement.objects.all().delete()
    change = SettingChange.objects.create(
        actor="ann", what="changed", kind="Agreement", name="tpa-1 of \u202eacme",
        before={"retries": 3}, after={"retries": 7}, reason=WHY,
    )  # fmt: skip

    page = administrator.get(reverse("admin:msh_settingchange_changelist"), {"q": "ann"})

    text = page.content.decode()
    assert "retries: 3 → 7" in text
    assert "\\u202eacme" in text
    assert administrator.post(address(change), {"actor": "eve"}).status_code == 403
    for refused in ("UPDATE msh_settingchange SET actor = 'eve'", "DELETE FROM msh_settingchange"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            connection.cursor().execute(refused)
