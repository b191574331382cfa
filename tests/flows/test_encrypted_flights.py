"""Messages that we encrypt: composed once, and sent again as they are stored."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.operations.inspection.raw_message import body_of, payload_of
from msh.models import Attempt, OutboundMessage, OutboundPayload
from msh.pem import SigningKey, decryption_key
from msh.protocol.ebms.encryption import DecryptionTerms
from msh.protocol.vocabulary import DeliverySemantics
from msh.transport.job import Job
from msh.wire.ebms2.encryption import Opened, decrypt
from msh.wire.ebms2.envelope import parse
from tests.keys import new_key, pem_of

from . import byhand
from .flying import SILENT, Sky

pytestmark = pytest.mark.django_db(transaction=True)

THEM, NEXT, OVER = new_key("them"), new_key("next", 0, 3), new_key("over", -3, -2)
ORDER = "<order>" + "x" * 400 + "</order>"


def agree(sky: Sky, **terms: Any) -> None:
    for name, value in {"encrypted": True, "certificate": pem_of(THEM), **terms}.items():
        setattr(sky.agreement, name, value)
    sky.agreement.full_clean()
    sky.agreement.save()


def opened(job: Job, key: SigningKey = THEM) -> Opened:
    (payload,) = parse(job.content_type, job.body).payloads
    assert payload.content_type == "application/xml"
    assert ORDER.encode() not in job.body
    return decrypt(payload.content, [decryption_key(key.private)], DecryptionTerms())


@pytest.mark.requirement("EB-178", "EB-185")
def test_every_copy_has_the_bytes_of_the_first(sky: Sky) -> None:
    """What applications and operators see of it is plain."""
    agree(sky)
    message = sky.submit(ORDER)
    (job,) = sky.poll()
    assert opened(job) == Opened("application/xml", ORDER.encode())
    assert b"#aes256-gcm" in job.body
    agree(sky, certificate=pem_of(NEXT))
    for encrypted in (True, False):
        agree(sky, encrypted=encrypted)
        sky.end(job)
        sky.let_pass(sky.agreement.retry_interval + 1)
        (again,) = sky.poll()
        assert again.body == job.body
        job = again

    message.refresh_from_db()
    assert body_of(message).content == job.body
    assert payload_of(message, 1).content == ORDER.encode()


@pytest.mark.requirement("EB-185")
def test_what_is_submitted_later_has_the_terms_of_that_day(sky: Sky) -> None:
    agree(sky)
    sky.submit(ORDER)
    assert len(sky.poll()) == 1
    agree(sky, encryption_certificate=pem_of(NEXT), encryption_method="aes128-gcm")
    sky.submit(ORDER)
    (job,) = sky.poll()
    assert b"#aes128-gcm" in job.body
    assert opened(job, NEXT).content == ORDER.encode()
    agree(sky, encrypted=False)
    sky.submit(ORDER)
    (job,) = sky.poll()
    assert ORDER.encode() in job.body
    sky.submit("")
    assert len(sky.poll()) == 1
    sealed = OutboundPayload.objects.order_by("message_id").values_list("encrypted", flat=True)
    assert [one is None for one in sealed] == [False, False, True]


@pytest.mark.requirement("EB-185")
def test_one_without_a_valid_certificate_waits_for_it(sky: Sky) -> None:
    agree(sky, certificate=pem_of(OVER))
    message = sky.submit(ORDER)
    assert sky.poll() == []
    assert sky.state(message) == "waiting"
    (attempt,) = Attempt.objects.all()
    why = "no certificate of the partner that is valid now may encipher keys"
    assert (attempt.outcome, attempt.detail) == ("failed", why)
    agree(sky, certificate=f"{pem_of(OVER)}\n{pem_of(THEM)}\n{pem_of(NEXT)}")
    sky.let_pass(sky.agreement.retry_interval + 1)
    (job,) = sky.poll()
    assert opened(job, NEXT).content == ORDER.encode()


@pytest.mark.requirement("EB-040", "EB-185")
def test_what_nobody_has_seen_is_composed_anew_as_a_whole(sky: Sky) -> None:
    """With a TimeToLive that had not begun."""
    agree(sky, time_to_live=3_600)
    message = sky.submit(ORDER)
    (job,) = sky.poll()
    sky.end(job, SILENT)
    sky.let_pass(sky.agreement.retry_interval + 1)
    (again,) = sky.poll()
    assert opened(job).content == opened(again).content == ORDER.encode()
    sky.end(again)
    sky.let_pass(sky.agreement.retry_interval + 1)
    assert [one.body for one in sky.poll()] == [again.body]
    message.refresh_from_db()
    assert body_of(message).content == again.body


@pytest.mark.requirement("EB-081", "EB-185")
def test_a_best_effort_message_is_encrypted_too(sky: Sky) -> None:
    agree(sky)
    message = sky.submit(ORDER, semantics=DeliverySemantics.BEST_EFFORT)
    (job,) = byhand.poll()
    assert opened(job).content == ORDER.encode()
    byhand.end(job)
    stored = OutboundMessage.objects.get(pk=message.pk)
    assert body_of(stored).content == job.body
    assert stored.first_sent_at
    assert timezone.now() - stored.first_sent_at < timedelta(hours=1)
