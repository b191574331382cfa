"""Messages that we sign, while our key is there and while it is not."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from msh.flows.sending.kinds import FlightCopy
from msh.models import Attempt
from msh.pem import SigningKey
from msh.protocol.ebms.signature import SignedReference
from msh.transport.job import Job
from msh.wire.ebms2.envelope import parse
from msh.wire.ebms2.signature import references_of, sign
from msh.wire.ebms2.writer import signed_reference
from partners.models import Agreement, Channel
from tests.keys import environment, new_key, pem_of
from tests.peer.ebms2 import Outgoing, acknowledgment

from .flying import Sky
from .test_http_answers import answered, notes

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


@pytest.mark.requirement("EB-168", "EB-178", "EB-201")
def test_the_agreement_says_by_what_we_sign_and_a_channel_otherwise(
    sky: Sky, settings: Any, tmp_path: Path
) -> None:
    """What was composed before a change has the signature of before."""
    us, curved = new_key("us"), new_key("us", curve=ec.SECP256R1())
    for name, value in environment(tmp_path, [us, curved]).items():
        setattr(settings, name, value.split(","))
    agreement = sky.agreement
    agreement.signed, agreement.certificate = True, pem_of(new_key("them"))
    agreement.signature_method = "rsa-sha512"
    agreement.full_clean()
    agreement.save()
    channel = {"direction": "out", "service": "urn:orders"}
    for action, own in (("New", {}), ("Hint", {"signature_method": "ecdsa-sha256"})):
        Channel.objects.create(agreement=agreement, action=action, **channel, **own)
    message, hint = sky.submit(), sky.submit(action="Hint")
    jobs = sky.poll()
    assert methods(jobs) == {message.pk: "rsa-sha512", hint.pk: "ecdsa-sha256"}
    first = {row_of(one): one.body for one in jobs}

    Agreement.objects.update(signature_method="rsa-sha384")
    agreement.channels.all().delete()
    for job in jobs:
        sky.end(job)
    after = sky.submit(action="Hint")
    sky.let_pass(agreement.retry_interval + 1)
    again = sky.poll()
    assert {row_of(one): one.body for one in again}.items() >= first.items()
    assert methods(again)[after.pk] == "rsa-sha384"


def row_of(job: Job) -> int:
    assert isinstance(job.key, FlightCopy)
    return job.key.key


def methods(jobs: Iterable[Job]) -> dict[int, str]:
    """By which the message with this key is signed."""
    found = re.compile(rb'SignatureMethod Algorithm="[^"]+#([^"]+)"')
    return {row_of(one): found.findall(one.body)[0].decode() for one in jobs}


def of_partner(sky: Sky, out: Outgoing, key: SigningKey | None = None) -> tuple[str, bytes]:
    envelope = sky.from_partner(out).envelope.encode()
    return "text/xml", sign(envelope, {}, key) if key else envelope


@pytest.mark.requirement("EB-069", "EB-098", "EB-099", "EB-179")
@pytest.mark.parametrize("ack_signed", [True, False])
def test_an_acknowledgment_on_the_connection_is_judged_alike(
    sky: Sky, settings: Any, tmp_path: Path, ack_signed: bool
) -> None:
    """One without signature and digests counts if none was agreed on, with others it does not."""
    them = new_key("them")
    agreement = sky.agreement
    agreement.signed, agreement.ack_signed = True, ack_signed
    agreement.certificate = pem_of(them)
    agreement.save()
    for name, value in environment(tmp_path, [new_key("us")]).items():
        setattr(settings, name, [value])
    message = sky.submit()
    (job,) = sky.poll()
    references = references_of(parse(job.content_type, job.body).envelope)
    plain, end = acknowledgment(message.message_id), "</eb:Acknowledgment>"

    def with_digests(*said: SignedReference) -> Outgoing:
        digests = "".join(map(signed_reference, said))
        return plain.but(extra=plain.extra.replace(end, digests + end))

    whole = with_digests(*references)
    of_another = with_digests(replace(references[0], value="AAAA"), *references[1:])
    unsigned = (whole, "is not signed") if ack_signed else (of_another, "has digests of another")

    for out, key, reason in (
        (unsigned[0], None, unsigned[1]),
        (plain, them, "has no digests"),
        (whole, new_key("stranger"), "none of the agreement's"),
    ):
        answered(sky, job, of_partner(sky, out, key))
        assert any(reason in one for one in notes(message))
        assert sky.state(message) == "waiting"
    assert sky.incidents() == ["answer_refused"]

    answered(sky, job, of_partner(sky, whole, them) if ack_signed else of_partner(sky, plain))
    assert sky.state(message) == "acknowledged"
