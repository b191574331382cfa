"""All reads of a page see one moment, and nothing is written by the way."""

import pytest
from django.db import InternalError
from django.test import Client
from django.urls import reverse

from msh.store.snapshot import snapshot
from partners.models import Partner
from tests.admin.conftest import client_of
from tests.flows.world import make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_others_commit_meanwhile_is_not_seen() -> None:
    with snapshot():
        before = Partner.objects.count()
        in_another_session(make_world)
        assert Partner.objects.count() == before
    assert Partner.objects.count() == before + 2


def test_nothing_can_be_written_in_it() -> None:
    with pytest.raises(InternalError, match="read-only"), snapshot():
        Partner.objects.create(name="late", uri="http://late.example/")
    assert not Partner.objects.exists()


def test_the_dashboard_is_read_in_one() -> None:
    """Outside of a test's transaction: in that nothing is set."""
    client: Client = client_of("olaf", "view_outboundlink", "view_outboundmessage", "view_incident")
    assert client.get(reverse("admin:index")).context["figures"]
