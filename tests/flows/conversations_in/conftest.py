"""An agreement whose messages come in order."""

import pytest

from msh.models import ConsumerKind
from partners.models import Agreement, Partner
from tests.delivery import application
from tests.delivery.desk import consumer
from tests.endpoint.ebms2 import agree


@pytest.fixture
def agreement() -> Agreement:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    consumer(ConsumerKind.IN_PROCESS)
    application.reset()
    return agree(partner, ordered=True, retries=2, retry_interval=60)
