"""Messages that fly: the list, the page of one, and what an operator does to it."""

import pytest
from django.test import Client
from django.urls import reverse

from tests.flows.flying import STATES, sky_of_five

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_outboundmessage_changelist")


def test_list_shows_and_finds_them_by_their_state(administrator: Client) -> None:
    sky_of_five()
    listed = administrator.get(LIST)
    assert [one.shown for one in listed.context["cl"].result_list] == STATES[::-1]
    page = listed.content.decode()
    assert "flying" not in page
    assert '<option value="held">held</option>' in page
    for state in STATES:
        found = administrator.get(LIST, {"state__exact": state}).context["cl"].result_list
        assert [one.shown for one in found] == [state]
