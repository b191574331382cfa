"""A filtered list as CSV and JSON: complete, bounded, safe in a spreadsheet, and in the audit."""

import csv
import io
import json
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from msh.admin.framework import export
from msh.models import InboundMessage, OutboundLink, OutboundMessage, SettingChange
from msh.web.stream import KEY
from tests.admin.conftest import client_of, suspended_world, url

pytestmark = pytest.mark.django_db

LIST = url(OutboundMessage, "changelist")


def exported(client: Client, form: str, where: str = LIST, **filters: str) -> Any:
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    answer: Any = client.post(f"{where}rows/?{query}", {"format": form})
    assert answer.status_code == 200, answer.headers
    content = b"".join(answer.streaming_content).decode()
    if form == "json":
        return json.loads(content)
    return list(csv.DictReader(io.StringIO(content, newline="")))


def test_all_pages_of_the_filtered_list_are_in_both(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    world = suspended_world(queued=5)
    suspended_world(queued=1)
    filters = {"state": "queued", "link__partner__id__exact": str(world.there.pk)}
    found = OutboundMessage.objects.filter(link=world.link, state="queued").order_by("-pk")
    wanted = list(found.values_list("message_id", flat=True))
    for form in ("csv", "json"):
        rows = exported(viewer, form, **filters)
        assert [row["message_id"] for row in rows] == wanted
        assert {(row["partner"], row["state"]) for row in rows} == {(world.there.name, "queued")}
        assert {row["agreement"] for row in rows} == {"tpa-1"}
        assert "head" not in rows[0]
    log = SettingChange.objects.filter(kind="Export").order_by("pk")
    assert [(one.actor, one.after["format"], one.after["rows"]) for one in log] == [
        ("vera", "csv", 5), ("vera", "json", 5),
    ]  # fmt: skip
    assert "state=queued" in log[0].after["filters"]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_first_rows_are_sent_before_the_others_are_read(
    viewer: Client, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The row of the audit log is there before any of them."""
    monkeypatch.setattr(export, "AT_ONCE", 2)
    suspended_world(queued=9)
    answer: Any = viewer.post(f"{LIST}rows/?", {"format": form})
    assert answer.wsgi_request.META[KEY]
    assert SettingChange.objects.get(kind="Export").after["rows"] == 10
    with CaptureQueriesContext(connection) as captured:
        first = next(answer.streaming_content).decode()
    assert len(captured) == 1
    assert first.count("tpa-1") == 2
    assert [piece.decode().count("tpa-1") for piece in answer.streaming_content][:4] == [2] * 4


@pytest.mark.parametrize(
    "begin", ["=", "+", "-", "@", "\t", "\r", " =", "\n", "\N{NO-BREAK SPACE}="]
)
def test_no_cell_is_a_formula(viewer: Client, begin: str) -> None:
    suspended_world()
    evil = f"{begin}HYPERLINK(1)"
    OutboundMessage.objects.update(conversation_id=evil)
    assert {row["conversation_id"] for row in exported(viewer, "csv")} == {f"'{evil}"}
    assert {row["conversation_id"] for row in exported(viewer, "json")} == {evil}


def test_more_than_the_limit_is_refused_not_cut(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended_world(queued=3)
    monkeypatch.setattr(export, "LIMIT", 3)
    answer = viewer.post(f"{LIST}rows/?", {"format": "csv"}, follow=True)
    assert "More than 3 rows match" in answer.content.decode()
    assert not SettingChange.objects.filter(kind="Export").exists()


def test_who_may_not_view_a_list_cannot_take_it_away() -> None:
    client = client_of("carl", "view_inboundmessage")
    assert client.post(f"{LIST}rows/", {"format": "csv"}).status_code == 403
    assert exported(client, "json", url(InboundMessage, "changelist")) == []
    strict = client_of("dora", "view_outboundmessage", enforce_csrf_checks=True)
    assert strict.post(f"{LIST}rows/", {"format": "csv"}).status_code == 403
    assert strict.get(f"{LIST}rows/?format=csv").status_code == 302


def test_every_list_of_traffic_can_be_exported(administrator: Client) -> None:
    suspended_world()
    pages = [one for one in admin.site._registry.values() if isinstance(one, export.ExportPage)]
    assert len(pages) > 10
    for page in pages:
        where = url(page.model, "changelist")
        assert isinstance(exported(administrator, "json", where), list), where
        assert "rows/" in administrator.get(where).content.decode()
    (link,) = exported(administrator, "json", url(OutboundLink, "changelist"))
    assert link["state"] == "suspended"
