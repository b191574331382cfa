"""Messages that we sign, while our key is there and while it is not."""

from pathlib import Path
from typing import Any

import pytest

from msh.models import Attempt
from msh.wire.ebms2.envelope import parse
from tests.keys import environment, new_key, pem_of

from .flying import Sky

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.requirement("EB-178")
def test_a_message_waits_for_our_key_and_keeps_its_signature(
    sky: Sky, settings: Any, tmp_path: Path
) -> None:
    agreement = sky.agreement
    agreement.signed, agreement.certificate = True, pem_of(new_key("them"))
    agreement.save()
    message = sky.submit()
    assert sky.poll() == []
    assert sky.state(message) == "waiting"
    (attempt,) = Attempt.objects.all()
    assert (attempt.outcome, attempt.detail) == (
        "failed",
        "MSH_SIGNING_KEY and MSH_SIGNING_CERTIFICATE are not set",
    )

    for name, value in environment(tmp_path, [new_key("us")]).items():
        setattr(settings, name, [value])
    sky.let_pass(agreement.retry_interval + 1)
    (job,) = sky.poll()
    assert parse(job.content_type, job.body).message.signed
    sky.end(job)
    sky.let_pass(agreement.retry_interval + 1)
    (again,) = sky.poll()
    assert again.body == job.body
