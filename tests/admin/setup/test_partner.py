"""The page of a partner."""

import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from msh.admin.setup.partner import AgreementInline
from msh.models import InboundLink, Incident, OutboundLink
from msh.store.operations.operator_actions import open_links
from msh.store.receiving.senders import find_sender
from partners.models import Agreement, Credential, Partner, digest_of
from partners.models.dialects import Dialect, settings_of
from partners.models.partner import OutgoingKind
from tests.certificates import Authority

pytestmark = pytest.mark.django_db

ADD = "/admin/partners/partner/add/"

LIST = "/admin/partners/partner/"

AGREEMENT = {
    "tpa_id": "tpa-1",
    "our_party": "1",
    "their_party": "2",
    "timeout": 60,
    "retries": 3,
    "retry_interval": 60,
    "semantics": "OnceAndOnlyOnce",
    "transient_count_limit": 100,
    "transient_time_limit": 86400,
    "transient_wait_limit": 3600,
    "on_unexpected_first": "accept",
    "early_warning": 0,
    "dialect": "trp",
    "ack": "perMessage",
    "ack_actor": "toPartyMSH",
    "eliminates": "perMessage",
    "time_to_live": 0,
    "persist_duration": 0,
    "clock_tolerance": 60,
    "window": 16,
    "on_failure": "fail",
    "sync_reply": "none",
    "soap_action": "ebXML",
    "signature_method": "rsa-sha256",
    "encryption_method": "aes256-gcm",
}


@pytest.fixture
def partner() -> Partner:
    return Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")


def page_of(partner: Partner) -> str:
    return f"{LIST}{partner.pk}/change/"


def form(**fields: Any) -> dict[str, Any]:
    """The page's fields, with one new agreement and one new credential where asked for."""
    agreements, credentials = fields.pop("agreements", []), fields.pop("credentials", [])
    data: dict[str, Any] = {
        "name": "acme",
        "uri": "http://acme.example/ebxml/",
        "our_uri": "",
        "address": "",
        "error_address": "",
        "allowed_networks": "",
        "probe_interval": 0,
        "rate_limit": 0,
        "undelivered_limit": 0,
        "undelivered_bytes_limit": 0,
        "outgoing_kind": "none",
        "secret": "",
        "reason": "the test says so",
        **fields,
    }
    for prefix, rows in (("agreements", agreements), ("credentials", credentials)):
        data |= {f"{prefix}-TOTAL_FORMS": len(rows), f"{prefix}-INITIAL_FORMS": 0}
        for number, row in enumerate(rows):
            data |= {f"{prefix}-{number}-{name}": value for name, value in row.items()}
    return data


def errors_of(response: Any) -> str:
    """All that the page complains of."""
    context = response.context
    formsets = [formset.formset for formset in context["inline_admin_formsets"]]
    return str(
        [context["adminform"].form.errors, *([*f.errors, f.non_form_errors()] for f in formsets)]
    )


def test_a_partner_is_added_and_its_token_shown_once(admin_client: Client) -> None:
    data = form(agreements=[AGREEMENT], credentials=[{"kind": "bearer", "label": ""}])
    response = admin_client.post(ADD, data, follow=True)
    partner = Partner.objects.get()
    assert partner.agreements.get().tpa_id == "tpa-1"
    shown = re.search(r"Bearer token for acme: (\S+) Copy it", response.content.decode())
    assert shown
    assert find_sender(f"Bearer {shown[1]}") == partner
    for again in (LIST, page_of(partner)):
        assert shown[1] not in admin_client.get(again).content.decode()


def test_agreements_of_one_form_have_one_dialect(admin_client: Client) -> None:
    other = {**AGREEMENT, "dialect": "ebms2", "tpa_id": "cpa-1"}

    response = admin_client.post(ADD, form(agreements=[AGREEMENT, other]))

    assert "have the same dialect" in errors_of(response)
    assert not Partner.objects.exists()
    for rows in ([other], [AGREEMENT, {"dialect": "no such"}]):
        response = admin_client.post(ADD, form(agreements=rows))
        if response.context:
            assert "have the same dialect" not in errors_of(response)
    assert Partner.objects.get().agreements.get().dialect == "ebms2"


def test_a_page_that_does_not_know_an_agreement_cannot_add_it_again(
    admin_client: Client, partner: Partner
) -> None:
    data = form(agreements=[AGREEMENT])
    assert admin_client.post(page_of(partner), data).status_code == 302
    response = admin_client.post(page_of(partner), data)
    assert "This partner has another agreement with this TPAId." in errors_of(response)
    stored = Agreement.objects.get()
    known = {"agreements-INITIAL_FORMS": 1, "agreements-0-id": stored.pk}
    known["agreements-0-partner"] = partner.pk
    assert admin_client.post(page_of(partner), data | known).status_code == 302
    again = form(agreements=[{**AGREEMENT, "DELETE": "on"}, {**AGREEMENT, "retries": 4}])
    assert admin_client.post(page_of(partner), again | known).status_code == 302
    assert Agreement.objects.get().retries == 4


def test_agreements_can_swap_their_tpa_ids(admin_client: Client, partner: Partner) -> None:
    """Written one after the other, they would have the same for a moment."""
    ids = ["tpa-1", "tpa-2", "tpa-3"]
    added = [{**AGREEMENT, "tpa_id": one, "retries": place} for place, one in enumerate(ids)]
    assert admin_client.post(page_of(partner), form(agreements=added)).status_code == 302
    stored = list(Agreement.objects.order_by("pk").values_list("pk", flat=True))
    turned = [{**one, "tpa_id": ids[place - 1]} for place, one in enumerate(added)]
    known: dict[str, object] = {"agreements-INITIAL_FORMS": 3}
    for place, key in enumerate(stored):
        known |= {f"agreements-{place}-id": key, f"agreements-{place}-partner": partner.pk}

    response = admin_client.post(page_of(partner), form(agreements=turned) | known)

    assert response.status_code == 302
    found = Agreement.objects.order_by("pk").values_list("tpa_id", "retries")
    assert list(found) == [("tpa-3", 0), ("tpa-1", 1), ("tpa-2", 2)]
    same = form(agreements=[{**one, "tpa_id": "tpa-1"} for one in added]) | known
    assert admin_client.post(page_of(partner), same).status_code == 200


def test_agreement_can_have_the_tpa_id_of_one_that_is_removed_with_it(
    admin_client: Client, partner: Partner
) -> None:
    added = [{**AGREEMENT, "tpa_id": one} for one in ("tpa-1", "tpa-2")]
    assert admin_client.post(page_of(partner), form(agreements=added)).status_code == 302
    stays, goes = Agreement.objects.order_by("pk")
    known: dict[str, object] = {"agreements-INITIAL_FORMS": 2}
    for place, one in enumerate((stays, goes)):
        known |= {f"agreements-{place}-id": one.pk, f"agreements-{place}-partner": partner.pk}
    after = [{**AGREEMENT, "tpa_id": "tpa-2"}, {**AGREEMENT, "tpa_id": "tpa-2", "DELETE": "on"}]

    response = admin_client.post(page_of(partner), form(agreements=after) | known)

    assert response.status_code == 302, errors_of(response)
    assert Agreement.objects.get(partner=partner).pk == stays.pk
    assert Agreement.objects.get(pk=stays.pk).tpa_id == "tpa-2"


def test_a_new_partner_is_suspended_before_its_first_message(admin_client: Client) -> None:
    admin_client.post(ADD, form())
    link = OutboundLink.objects.get(partner__name="acme")
    assert InboundLink.objects.get().partner == link.partner

    suspend = reverse("admin:msh_outboundlink_suspend", args=[link.pk])
    admin_client.post(suspend, {"reason": "starts on Monday"})

    link.refresh_from_db()
    assert link.state == "suspended"
    admin_client.post(page_of(link.partner), form(address="http://acme.example/moved/"))
    assert OutboundLink.objects.get().state == "suspended"


@pytest.mark.parametrize("used", [False, True])
def test_partner_is_deleted_only_if_unused(
    admin_client: Client, partner: Partner, used: bool
) -> None:
    open_links(partner)
    if used:
        link = InboundLink.objects.get(partner=partner)
        at = timezone.now()
        link.signals.create(kind="Error", first_at=at, due=at, expires_at=at)

    admin_client.post(f"{LIST}{partner.pk}/delete/", {"post": "yes", "reason": "never used"})

    assert Partner.objects.exists() is used
    assert OutboundLink.objects.exists() is used


def test_two_credentials_rotate(admin_client: Client, partner: Partner) -> None:
    old = Credential.objects.create(partner=partner, sha256=digest_of("old"))
    data = form() | {
        "credentials-TOTAL_FORMS": 2,
        "credentials-INITIAL_FORMS": 1,
        "credentials-0-id": old.pk,
        "credentials-0-partner": partner.pk,
        "credentials-0-kind": "basic",
        "credentials-1-kind": "basic",
    }
    response = admin_client.post(page_of(partner), data, follow=True)
    shown = re.search(r"for acme: (acme:\S+) Copy", response.content.decode())
    assert shown
    old.refresh_from_db()
    assert (old.kind, old.sha256) == ("bearer", digest_of("old"))
    data = data | {"credentials-1-kind": "bearer", "credentials-0-DELETE": "on"}
    data["credentials-TOTAL_FORMS"] = 1
    admin_client.post(page_of(partner), data)
    assert Credential.objects.get().sha256 == digest_of(shown[1])


def test_our_credential_is_stored_and_never_shown(admin_client: Client, partner: Partner) -> None:
    data = form(outgoing_kind="bearer", secret="t0p-secret")
    admin_client.post(page_of(partner), data)
    partner.refresh_from_db()
    assert partner.authorization() == "Bearer t0p-secret"
    page = admin_client.get(page_of(partner)).content.decode()
    assert "t0p-secret" not in page
    assert partner.outgoing_secret not in page
    moved = "http://acme.example/moved/"
    admin_client.post(page_of(partner), form(outgoing_kind="bearer", address=moved))
    partner.refresh_from_db()
    assert (partner.authorization(), partner.address) == ("Bearer t0p-secret", moved)
    admin_client.post(page_of(partner), form())
    partner.refresh_from_db()
    assert (partner.authorization(), partner.outgoing_secret) == ("", "")


@pytest.mark.requirement("EB-188")
def test_client_certificate_is_a_credential(admin_client: Client, partner: Partner) -> None:
    authority = Authority("acme")
    row = {"kind": "certificate", "label": "", "certificate": authority.pem}
    page = admin_client.post(page_of(partner), form(credentials=[row]), follow=True)
    digest = authority.certificate.fingerprint(SHA256()).hex()
    assert find_sender("", digest) == partner
    shown = page.content.decode()
    assert "Copy it for the partner now" not in shown
    shown = admin_client.get(page_of(partner)).content.decode()
    assert "subject CN=acme, issuer CN=acme, valid from" in shown
    assert digest in shown
    for changes, problem in (
        ({"certificate": ""}, "Enter one certificate in PEM, or its SHA-256"),
        ({"certificate": "nonsense"}, "Enter one certificate in PEM, or its SHA-256"),
        ({"certificate": digest}, "Partner acme has the same one"),
        ({"kind": "bearer"}, "Only a client certificate has one"),
    ):
        again = form(name="other", uri="http://other.example/", credentials=[row | changes])
        assert problem in errors_of(admin_client.post(ADD, again))


def test_password_of_the_proxy_is_stored_and_never_shown(
    admin_client: Client, partner: Partner
) -> None:
    proxy = "http://us:t0p-secret@proxy.example:3128"
    refused = admin_client.post(page_of(partner), form(http_proxy=proxy, uri="acme"))
    assert "http://us@proxy.example:3128" in refused.content.decode()
    unusable = admin_client.post(page_of(partner), form(http_proxy=proxy.replace("http", "htp")))
    admin_client.post(page_of(partner), form(http_proxy=proxy), follow=True)
    partner.refresh_from_db()
    assert partner.access().proxy == proxy
    page = admin_client.get(page_of(partner))
    history = admin_client.get(f"{LIST}{partner.pk}/history/")
    for shown in (refused, unusable, page, history):
        assert "t0p-secret" not in shown.content.decode()
        assert partner.http_proxy_secret not in shown.content.decode()
    assert "http://us@proxy.example:3128" in history.content.decode()
    admin_client.post(page_of(partner), form(http_proxy=partner.http_proxy))
    partner.refresh_from_db()
    assert partner.access().proxy == proxy


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"http_proxy": "http://proxy.example"}, "Enter http://host:port"),
        ({"ca_certificates": "nonsense"}, "This is no certificate in PEM"),
        ({"outgoing_kind": "bearer"}, "A token consists of printable"),
        ({"outgoing_kind": "basic", "secret": "password"}, "Enter user:password"),
        ({"uri": "acme"}, "is not a URI"),
        ({"name": "上海"}, "Letters a-z, digits, - and _ only"),
        ({"allowed_networks": "10.0.0.0/40"}, "Enter networks such as"),
        ({"agreements": [AGREEMENT | {"timeout": 0}]}, "Must be 1 or more."),
        ({"agreements": [AGREEMENT, AGREEMENT]}, "duplicate data for tpa_id"),
    ],
)
def test_impossible_values_are_refused_at_their_field(
    admin_client: Client, fields: dict[str, Any], problem: str
) -> None:
    response = admin_client.post(ADD, form(**fields))
    assert problem in errors_of(response)
    assert not Partner.objects.exists()


def test_an_address_that_is_another_partners_is_saved_with_a_warning(
    admin_client: Client, partner: Partner
) -> None:
    Partner.objects.create(name="eldridge", uri="http://eldridge.example/", address="http://x/")
    warning = "The address is the one of eldridge, too"
    for address in ("http://ELDRIDGE.example/", "http://x/"):
        page = admin_client.post(page_of(partner), form(address=address), follow=True)
        assert warning in page.content.decode()
        assert Partner.objects.get(pk=partner.pk).address == address
    page = admin_client.post(page_of(partner), form(address="http://acme.example/new"), follow=True)
    assert warning not in page.content.decode()


def test_the_top_of_a_form_names_each_field_with_an_error(
    admin_client: Client, partner: Partner
) -> None:
    admin_client.post(page_of(partner), form(outgoing_kind="bearer", secret="key"))
    wrong = {**AGREEMENT, "retries": -1}
    sent = form(
        outgoing_kind="bearer", address="http://new.example/", reason="", agreements=[wrong]
    )
    html = admin_client.post(page_of(partner), sent).content.decode()

    summary = html[html.index('role="alert"') : html.index('id="id_name"')]
    assert '<a href="#id_address" class="text-link">Address</a>: Host, port or scheme' in summary
    assert '<a href="#id_reason" class="text-link">Reason</a>: This field is required' in summary
    assert '<a href="#id_agreements-0-retries" class="text-link">Agreement 1, Retries' in summary
    assert summary.count("<li>") == 3


def test_a_second_partner_of_the_pair_is_refused(admin_client: Client, partner: Partner) -> None:
    response = admin_client.post(ADD, form(name="other"))
    assert "Partner acme has the same pair" in errors_of(response)


def test_a_used_pair_keeps_its_name(admin_client: Client, partner: Partner) -> None:
    Partner.objects.update(in_use=True)
    response = admin_client.post(page_of(partner), form(uri="http://moved.example/"))
    assert "If the host has moved, change the address" in errors_of(response)
    partner.refresh_from_db()
    assert partner.uri == "http://acme.example/ebxml/"


def test_viewer_cannot_change_a_partner(client: Client, partner: Partner) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(
        Permission.objects.filter(codename__in=["view_partner", "view_agreement"])
    )
    partner.show(OutgoingKind.BEARER, "t0p-secret")
    partner.save()
    client.force_login(viewer)
    page = client.get(page_of(partner))
    assert page.status_code == 200
    assert "t0p-secret" not in page.content.decode()
    assert client.post(page_of(partner), form(address="http://moved/")).status_code == 403
    assert client.get(ADD).status_code == 403


def test_strangers_are_sent_to_the_log_in(client: Client, partner: Partner) -> None:
    assert client.get(page_of(partner)).status_code == 302


def test_the_list_names_the_agreements_of_a_partner(admin_client: Client, partner: Partner) -> None:
    for tpa_id in ("tpa-1", "tpa-2"):
        Agreement.objects.create(partner=partner, tpa_id=tpa_id, our_party="1", their_party="2")
    assert "tpa-1, tpa-2" in admin_client.get(LIST).content.decode()


def test_the_list_says_how_each_partner_is(admin_client: Client, partner: Partner) -> None:
    """F30: two columns with the same word, and none with a state."""
    open_links(partner)
    OutboundLink.objects.update(state="suspended", suspended_since=timezone.now())
    now = timezone.now()
    for kind in ("stuck", "backlog"):
        Incident.objects.create(
            partner=partner, direction="out", kind=kind, opened_at=now, last_at=now
        )
    Partner.objects.create(name="new-one", uri="http://new.example/", address="http://moved/")
    listed = admin_client.get(LIST)
    page = " ".join(listed.content.decode().split())

    assert re.search(r"suspended.*is=open[^>]*>2</a>", page)
    assert re.search(r"new-one.*>\s*new\s*<.*http://moved/.*http://new.example/", page)
    assert page.count(">acme<") == 1


def test_the_list_of_three_partners_needs_as_many_queries_as_of_one(
    admin_client: Client, partner: Partner
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(LIST).status_code == 200
        return len(captured)

    open_links(partner)
    queries()  # fills Django's own caches
    of_one = queries()
    for name in ("two", "three"):
        open_links(Partner.objects.create(name=name, uri=f"http://{name}.example/"))
    assert queries() == of_one


def test_our_identity_is_one_row(admin_client: Client) -> None:
    add = "/admin/partners/ownidentity/add/"
    data = {"msh_uri": "http://us.example/", "error_uri": "", "reason": "we have moved"}
    assert admin_client.post(add, data).status_code == 302
    assert admin_client.get(add).status_code == 403


def test_a_party_has_one_route(admin_client: Client, partner: Partner) -> None:
    route = {"to_party": "333", "to_party_context": "", "partner": partner.pk, "mode": "hop"}
    route["reason"] = "they are behind it"
    assert admin_client.post("/admin/partners/route/add/", route).status_code == 302
    assert "already has a route" in errors_of(
        admin_client.post("/admin/partners/route/add/", route)
    )
    assert "333" in admin_client.get("/admin/partners/route/").content.decode()


@pytest.mark.parametrize(
    ("back", "led_to"),
    [
        ("/admin/msh/outboundlink/", "/admin/msh/outboundlink/"),
        ("", "/admin/partners/partner/"),
        ("https://evil.example/", "/admin/partners/partner/"),
        ("//evil.example/", "/admin/partners/partner/"),
    ],
)
def test_saved_settings_lead_back_to_the_page_that_led_to_them(
    admin_client: Client, back: str, led_to: str
) -> None:
    partner = Partner.objects.create(name="acme", uri="http://acme.example/ebxml/")
    where = f"{page_of(partner)}?{urlencode({'back': back})}"
    saved = admin_client.post(where, form(address="http://acme.example/moved/"))
    assert saved.headers["Location"] == led_to
    partner.refresh_from_db()
    assert partner.address == "http://acme.example/moved/"


@pytest.mark.parametrize("dialect", Dialect)
def test_every_setting_of_an_agreement_is_on_the_page(dialect: Dialect) -> None:
    fieldsets: Any = AgreementInline.fieldsets
    shown = flatten_fieldsets(fieldsets)
    assert set(settings_of(dialect).names.values()) - set(shown) == set()
