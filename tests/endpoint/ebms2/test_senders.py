"""Who is not taken for a partner, and what is no message: a SOAP Fault."""

import pytest

from msh.models import History, InboundMessage, Signal
from partners.models import Partner
from tests.endpoint.ebms2 import Send, agree, assert_fault
from tests.endpoint.ebms2.test_signatures import signed
from tests.keys import new_key, pem_of
from tests.peer.ebms2 import acknowledgment, message, message_error, ping, status_request
from tests.peer.sending import Request
from tests.wire import samples as draft

pytestmark = pytest.mark.django_db(transaction=True)

DRAFT = draft.package(draft.header_part(draft.EXAMPLE), draft.ORDER_PART)
NESTED = '<wsse:Security xmlns:wsse="urn:example:wsse" SOAP:mustUnderstand="{}"/>'


@pytest.mark.requirement("EB-064", "EB-066", "EB-191")
def test_message_of_no_agreement_is_a_fault(send: Send, partner: Partner) -> None:
    other = Partner.objects.create(name="other", uri="http://other.example/")
    agree(other, tpa_id="cpa-of-other")

    for cpa_id in ("cpa-none", "cpa-of-other", "tpa-4711"):
        assert_fault(send(message(cpa_id=cpa_id)), 403, "Server")

    assert not InboundMessage.objects.exists()
    assert not Signal.objects.exists()
    noted = History.objects.filter(event="MessageOfNoAgreement")
    assert {one.partner for one in noted} == {Partner.objects.get(name="hospital")}


@pytest.mark.requirement("EB-191")
def test_signal_under_the_agreement_of_another_partner_is_a_fault(
    send: Send, ebms2: Partner
) -> None:
    cpa_id = "cpa-of-other"
    agree(Partner.objects.create(name="other", uri="http://other.example/"), tpa_id=cpa_id)
    signals = (
        acknowledgment("m1", cpa_id=cpa_id),
        message_error("m1", cpa_id=cpa_id),
        ping(cpa_id=cpa_id),
        status_request("m1", cpa_id=cpa_id),
    )

    for signal in signals:
        assert_fault(send(signal), 403, "Server")

    assert not Signal.objects.exists()
    noted = History.objects.filter(event="MessageOfNoAgreement")
    assert {one.partner for one in noted} == {ebms2}


@pytest.mark.requirement("EB-064")
def test_agreement_of_the_draft_is_none_of_this_dialect(send: Send, partner: Partner) -> None:
    assert_fault(send(message(cpa_id="tpa-4711"), token="token"), 403, "Server")
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-153")
@pytest.mark.parametrize("token", [None, "wrong"])
def test_who_is_not_known_gets_401_with_a_fault(send: Send, token: str | None) -> None:
    response = send(message(), token=token)

    assert_fault(response, 401, "Server")
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-190", "EB-064")
def test_partner_without_credential_is_known_by_network_and_agreement(
    send: Send, ebms2: Partner
) -> None:
    partner = Partner.objects.create(
        name="clinic", uri="http://clinic.example/", allowed_networks="127.0.0.0/8"
    )
    agree(partner, tpa_id="cpa-2")

    assert send(message(cpa_id="cpa-2"), token=None).status == 204
    assert InboundMessage.objects.get().link.partner == partner
    for stranger in (message(cpa_id="cpa-1"), message(cpa_id="cpa-2", from_party="3")):
        assert_fault(send(stranger, token=None), 500, "Client")
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-190", "EB-064")
def test_partners_of_one_network_are_told_apart_by_their_agreements(
    send: Send, ebms2: Partner
) -> None:
    names = ("clinic", "surgery")
    for name in names:
        uri = f"http://{name}.example/"
        one = Partner.objects.create(name=name, uri=uri, allowed_networks="127.0.0.0/8")
        agree(one, tpa_id=f"cpa-of-{name}")

    for name in reversed(names):
        out = message(cpa_id=f"cpa-of-{name}")
        assert send(out, token=None).status == 204
        stored = InboundMessage.objects.get(message_id=out.message_id)
        assert stored.link.partner.name == name


@pytest.mark.requirement("EB-190")
@pytest.mark.parametrize("networks", ["", "0.0.0.0/0", "192.0.2.0/24"])
def test_partner_is_never_known_by_its_agreement_alone(send: Send, networks: str) -> None:
    partner = Partner.objects.create(
        name="clinic", uri="http://clinic.example/", allowed_networks=networks
    )
    agree(partner, tpa_id="cpa-2")

    assert send(message(cpa_id="cpa-2"), token=None).status == 401


@pytest.mark.requirement("EB-190")
def test_agreement_that_wants_signatures_shows_nobody_by_itself(send: Send, ebms2: Partner) -> None:
    """EB-190 would allow it; but nothing is read before it is known whose it is."""
    partner = Partner.objects.create(name="clinic", uri="http://clinic.example/")
    agree(partner, tpa_id="cpa-2", signed=True, certificate=pem_of(new_key("them")))

    assert send(signed(message(cpa_id="cpa-2")), token=None).status == 401
    partner.allowed_networks = "127.0.0.0/8"
    partner.save()
    assert send(signed(message(cpa_id="cpa-2")), token=None).status == 204


@pytest.mark.requirement("EB-190")
def test_partner_with_a_credential_has_to_show_it(send: Send, ebms2: Partner) -> None:
    ebms2.allowed_networks = "127.0.0.0/8"
    ebms2.save()

    assert send(message(), token=None).status == 401


@pytest.mark.requirement("EB-016", "EB-020", "EB-066")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"no xml", "Client"),
        (message().envelope.replace("soap/envelope/", "soap/12/").encode(), "VersionMismatch"),
        (message(extra=NESTED.format(1)).envelope.encode(), "MustUnderstand"),
        (b"<x/>", "Client"),
    ],
)
def test_what_is_no_message_is_a_fault(web: str, ebms2: Partner, body: bytes, code: str) -> None:
    headers = {"Content-Type": "text/xml", "Authorization": "Bearer ebms2"}

    response = Request(web, headers=headers, body=body).send()

    assert_fault(response, 500, code)
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-190", "EB-004")
@pytest.mark.parametrize("kind", ["{}", "{}; type=''", '{}; type="text/xml; charset=utf-8"'])
def test_partner_known_by_network_may_leave_out_the_type(
    web: str, ebms2: Partner, kind: str
) -> None:
    networks = "127.0.0.0/8"
    clinic = Partner.objects.create(name="c", uri="http://c.example/", allowed_networks=networks)
    agree(clinic, tpa_id="cpa-2")
    out = message(cpa_id="cpa-2")
    related = f'multipart/related; boundary="{out.boundary}"'

    headers = {"Content-Type": kind.format(related).replace("''", '""')}
    response = Request(web, headers=headers, body=out.body).send()

    assert response.status == 204
    assert InboundMessage.objects.get().link.partner == clinic


@pytest.mark.requirement("EB-190")
def test_message_of_the_draft_shows_nobody_by_its_network(web: str, ebms2: Partner) -> None:
    networks = "127.0.0.0/8"
    clinic = Partner.objects.create(name="c", uri="http://c.example/", allowed_networks=networks)
    agree(clinic, tpa_id="cpa-2")
    headers = {"Content-Type": "multipart/related; boundary=edge"}

    for _ in range(3):
        assert Request(web, headers=headers, body=DRAFT).send().status == 401

    assert not InboundMessage.objects.exists()
