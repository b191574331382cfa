"""The endpoint behind the real web server, and a partner that speaks ebMS 2.0."""

from collections.abc import Callable

import pytest

from partners.models import Partner
from tests.endpoint.conftest import web
from tests.endpoint.ebms2.conftest import ebms2, send
from tests.peer.sending import Request, Response

__all__ = ["ebms2", "post", "send", "web"]

Post = Callable[..., Response]


@pytest.fixture
def post(web: str, ebms2: Partner) -> Post:
    """Bytes of that partner, with this Content-Type and other headers."""

    def send_as_it_is(body: bytes, content_type: str, **headers: str) -> Response:
        shown = {"Content-Type": content_type, "Authorization": "Bearer ebms2"}
        return Request(web, headers={**shown, **headers}, body=body).send()

    return send_as_it_is
