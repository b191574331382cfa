"""Signatures of our POSTs, by an independent verifier and by the example of the documentation."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
import time_machine
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from msh.transport import signature

DELIVERY = Path(__file__).parents[2] / "docs" / "delivery.md"
BODY = json.dumps({"kind": "acknowledged"}).encode()


def headers(*signing: str, identifier: str = "order-1", body: bytes = BODY) -> dict[str, str]:
    return dict(signature.signed(signing, identifier, body))


def is_taken(secret: str, signed: dict[str, str], body: bytes = BODY) -> bool:
    try:
        Webhook(secret).verify(body, signed)
    except WebhookVerificationError:
        return False
    return True


def documented() -> Any:
    (code,) = re.findall(r"```python\n(import base64.*?)```", DELIVERY.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_ours"]


def test_request_is_verified_by_each_of_the_secrets_and_no_other() -> None:
    new, old, other = (signature.new_secret() for _ in range(3))
    signed = headers(new, old)
    assert [is_taken(secret, signed) for secret in (new, old, other)] == [True, True, False]
    is_ours = documented()
    assert [is_ours(signed, BODY, secret) for secret in (new, old, other)] == [True, True, False]
    assert not is_taken(new, headers(old))


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "order-2"},
        {"webhook-timestamp": "1"},
        {"webhook-signature": "v1,AAAA"},
    ],
)
def test_request_that_was_changed_is_refused(changed: dict[str, str]) -> None:
    secret = signature.new_secret()
    signed = headers(secret) | changed
    assert not is_taken(secret, signed)
    assert not documented()(signed, BODY, secret)
    assert not documented()(headers(secret), BODY + b" ", secret)


def test_request_that_is_old_is_refused() -> None:
    secret = signature.new_secret()
    with time_machine.travel(0, tick=False):
        signed = headers(secret)
        assert documented()(signed, BODY, secret)
    assert signed["webhook-timestamp"] == "0"
    assert not is_taken(secret, signed)
    assert not documented()(signed, BODY, secret)


def test_bytes_that_are_no_text_are_signed() -> None:
    secret, body = signature.new_secret(), b"\x00\xff.\n"
    signed = headers(secret, body=body)
    assert documented()(signed, body, secret)
    assert not documented()(signed, body + b"\n", secret)


def test_identifier_has_no_full_stop() -> None:
    """It separates what is signed: else an id could take over a part of the time."""
    signed = headers(signature.new_secret(), identifier="order.1@shop.example")
    assert signed["webhook-id"] == "order%2E1@shop%2Eexample"


def test_without_a_secret_there_is_no_header() -> None:
    assert headers() == {}


@pytest.mark.parametrize(
    "secret",
    ["", "hidden", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"x" * 23).decode()],
)
def test_secret_that_is_none_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match="signing secret") as refused:
        signature.key_of(secret)
    assert not secret.removeprefix("whsec_") or secret not in str(refused.value)
