"""An answer that names another partner: the addresses may be swapped."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from msh.flows.operations.inspection.shared_address import shared_address
from msh.models import OutboundLink
from partners.models import Partner
from tests.admin.conftest import url
from tests.admin.links.test_advice import page_of, silent_world
from tests.flows.world import World
from tests.sql import analyze

pytestmark = pytest.mark.django_db


def refused_by(name: str, answer: str) -> World:
    world = silent_world(401, f"401 {answer}")
    Partner.objects.filter(pk=world.there.pk).update(name=name)
    return world


def test_a_refusal_that_names_another_partner_says_so(operator: Client) -> None:
    aldgate = refused_by("aldgate", "this is eldridge - sender not registered")
    eldridge = refused_by("eldridge", "this is aldgate - sender not registered")
    halden = refused_by("halden", "token of halden at aldgate expired")
    hint = "The answer of aldgate names partner eldridge: the address may be that of eldridge."
    assert hint in page_of(operator, aldgate).content.decode()
    assert "names partner aldgate" in page_of(operator, eldridge).content.decode()
    assert "names partner" not in page_of(operator, halden).content.decode()

    page = operator.get(reverse("admin:index"))
    (group,) = page.context["suspended"].groups
    assert group.count == 3
    assert [one.split(":")[0] for one in group.hints] == [
        "The answer of aldgate names partner eldridge",
        "The answer of eldridge names partner aldgate",
    ]
    assert hint in page.content.decode()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("unknown sender at this gateway", False),
        ("gateway: not authorised", False),
        ("sender is not known to 'gateway'", True),
        ("Party: gateway does not know you", True),
        ("you have reached partner gateway", True),
    ],
)
def test_a_word_that_is_also_a_name_is_not_a_partner(
    operator: Client, answer: str, named: bool
) -> None:
    refused_by("gateway", "no")
    page = page_of(operator, refused_by("aldgate", answer)).content.decode()
    assert ("names partner gateway" in page) is named


def test_another_failure_names_nobody(operator: Client) -> None:
    refused_by("eldridge", "no")
    down = silent_world(503, "503 eldridge is in maintenance")
    assert "names partner" not in page_of(operator, down).content.decode()


def test_an_address_that_is_another_partners_says_so(
    operator: Client,
) -> None:
    aldgate = refused_by("aldgate", "sender not registered")
    eldridge = refused_by("eldridge", "sender not registered")
    told = "The address is the one of eldridge, too"
    pages = (
        url(OutboundLink, "change", aldgate.link.pk),
        reverse("partner_page", args=[aldgate.there.pk]),
    )
    for page in pages:
        assert told not in operator.get(page).content.decode()

    other = Partner.objects.get(pk=eldridge.there.pk).uri
    Partner.objects.filter(pk=aldgate.there.pk).update(address=other.replace("http:", "HTTP:"))
    for page in pages:
        html = operator.get(page).content.decode()
        assert told in html
        assert "HTTP:" in html, "the address that we send to"
    assert "the one of aldgate, too" in page_of(operator, eldridge).content.decode()


def test_two_pairs_with_one_mshs_uri_share_its_address(operator: Client) -> None:
    first = refused_by("first", "no")
    second = refused_by("second", "no")
    here = Partner.objects.get(pk=first.there.pk)
    Partner.objects.filter(pk=second.there.pk).update(
        uri=here.uri, uri_normalised=here.uri_normalised, our_uri_normalised="http://other.example/"
    )
    assert ", too" not in page_of(operator, second).content.decode()


def test_whose_an_address_is_is_looked_up_by_indexes() -> None:
    """A scan of 100,000 partners is too slow for a page. Of a few, PostgreSQL may skip through the
    index of pairs as well."""
    partner = Partner.objects.create(name="aldgate", uri="http://aldgate.example/", address="x")
    Partner.objects.bulk_create(
        Partner(
            name=f"other-{n}", our_uri_normalised=f"http://us-{n}/", uri_normalised=f"http://{n}/"
        )
        for n in range(1_000)
    )
    with CaptureQueriesContext(connection) as asked:
        shared_address(partner)
    (query,) = asked.captured_queries
    with connection.cursor() as cursor:
        analyze("partners_partner")
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        cursor.execute(f"EXPLAIN {query['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    for index in ("partner_by_address", "partner_by_uri"):
        assert f"Bitmap Index Scan on {index}" in plan
