"""A partner that speaks ebMS 2.0."""

from collections.abc import Iterator

import pytest

from partners.models import Credential, Partner, digest_of
from tests.endpoint.conftest import serving
from tests.endpoint.ebms2 import Send, agree
from tests.peer.ebms2 import Outgoing
from tests.peer.sending import Request, Response


@pytest.fixture(scope="package")
def web(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address. Several tests let copies of a message wait for each other."""
    with serving(tmp_path_factory.mktemp("web"), lock_timeout="60s") as address:
        yield address


@pytest.fixture
def ebms2(transactional_db: None) -> Partner:
    """Known by the token "ebms2", with one agreement."""
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    Credential.objects.create(partner=partner, sha256=digest_of("ebms2"))
    agree(partner)
    return partner


@pytest.fixture
def send(web: str, ebms2: Partner) -> Send:
    def post(out: Outgoing, *, token: str | None = "ebms2", **headers: str) -> Response:
        shown = {} if token is None else {"Authorization": f"Bearer {token}"}
        kind = {"Content-Type": out.content_type, "SOAPAction": '"ebXML"'}
        return Request(web, headers={**kind, **shown, **headers}, body=out.body).send()

    return post
