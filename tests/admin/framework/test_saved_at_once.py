"""Two pages that add the same at one moment: the second has an error in its form."""

from typing import Any

import pytest
from django.test import Client

from msh.models import SettingChange
from partners.models import Partner
from tests.admin.setup.test_partner import errors_of, form
from tests.sessions import meet

pytestmark = pytest.mark.django_db(transaction=True)


def post_while_another_adds(client: Client, url: str, data: dict[str, Any], row: Any) -> Any:
    """The answer to the page that was posted before `row` was committed."""
    client.raise_request_exception = False
    return meet(row.save, lambda: client.post(url, data))


def test_the_same_partner_added_twice_is_an_error_of_the_form(admin_client: Client) -> None:
    other = Partner(name="acme", uri="http://acme.example/ebxml/")
    url = "/admin/partners/partner/add/"
    response = post_while_another_adds(admin_client, url, form(), other)
    assert response.status_code == 200
    assert "already exists" in errors_of(response)
    assert Partner.objects.count() == 1
    assert not SettingChange.objects.exists()
