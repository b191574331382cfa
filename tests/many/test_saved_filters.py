"""The filter of a list is kept under a name, for oneself or for all, and can be removed."""

import pytest
from django.test import Client

from msh.models import Consumer, OutboundMessage, SavedFilter
from tests.admin.conftest import client_of, messages_of, suspended_world, url

pytestmark = pytest.mark.django_db

LIST = url(OutboundMessage, "changelist")


def save(client: Client, name: str, query: str, where: str = LIST, **fields: str) -> str:
    return messages_of(client.post(f"{where}filters/?{query}", {"name": name, **fields}))


def page(client: Client, query: str = "", where: str = LIST) -> str:
    return client.get(f"{where}?{query}").content.decode()


def test_a_private_filter_is_for_its_owner_and_a_shared_one_for_all(
    viewer: Client, operator: Client
) -> None:
    suspended_world()
    assert "Filter mine is saved" in save(viewer, "mine", "state=queued&p=2&number=")
    save(viewer, "ours", "state=in_flight", shared="on")
    assert set(SavedFilter.objects.values_list("query", flat=True)) == {
        "state=queued", "state=in_flight",
    }  # fmt: skip
    assert 'href="?state=queued"' in page(viewer)
    assert 'href="?state=queued"' not in page(operator)
    assert 'href="?state=in_flight"' in page(operator)
    assert "shared by vera" in page(operator)
    assert "Save this filter" not in page(viewer, "state=queued"), "it is saved already"
    assert "Save this filter" in page(viewer, "state=acknowledged")
    other = url(Consumer, "changelist")
    assert "state=in_flight" not in page(operator, where=other), "of another list"


def test_a_filter_is_removed_by_its_owner_or_an_administrator(
    viewer: Client, operator: Client, administrator: Client
) -> None:
    save(viewer, "ours", "state=queued", shared="on")
    save(viewer, "theirs", "state=failed", shared="on")
    save(viewer, "mine", "state=sent")
    ours, theirs, mine = SavedFilter.objects.order_by("pk")
    remove = f"{LIST}filters/{{}}/remove/"
    assert operator.post(remove.format(ours.pk)).status_code == 403
    assert administrator.post(remove.format(mine.pk)).status_code == 404, "not seen by others"
    assert viewer.get(remove.format(ours.pk)).status_code == 405
    viewer.post(remove.format(ours.pk))
    administrator.post(remove.format(theirs.pk))
    assert SavedFilter.objects.get() == mine


def test_what_is_no_filter_is_not_saved(viewer: Client) -> None:
    assert "no valid filter" in save(viewer, "none", "p=3")
    assert "no valid filter" in save(viewer, "wrong", "nothing__like=this")
    assert "at most 60 characters" in save(viewer, "x" * 61, "state=queued")
    assert "no valid filter" in save(viewer, "long", f"q={'x' * 2000}")
    stranger = client_of("carl", "view_inboundmessage")
    assert stranger.post(f"{LIST}filters/?state=queued", {"name": "x"}).status_code == 403
    assert not SavedFilter.objects.exists()


def test_a_name_that_is_used_again_gets_the_new_filter(viewer: Client) -> None:
    save(viewer, "mine", "state=queued")
    save(viewer, "mine", "state=failed")
    assert SavedFilter.objects.get().query == "state=failed"
