"""Consumers as scripts set them: added and changed, never removed."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Consumer, ConsumerKind

DEFAULT = "default"


class ConsumerRefused(ValueError):
    """`str()` names each field that is wrong, and the cure. Nothing was changed."""


def keep(name: str, **values: Any) -> Consumer:
    """Add the consumer called `name`, or change these values of it. `authorization` is the header
    of our POSTs to it, `signing` a SigningChange."""
    with transaction.atomic():
        consumer = Consumer.objects.filter(name=name).first() or Consumer(name=name)
        authorization = values.pop("authorization", None)
        signing = values.pop("signing", "")
        for field, value in values.items():
            setattr(consumer, field, value)
        if authorization is not None:
            consumer.show(authorization)
        if signing:
            consumer.change_signing(signing)
        try:
            consumer.full_clean()
        except ValidationError as problem:
            texts = problem.message_dict.items()
            reasons = (f"{field}: {' '.join(messages)}" for field, messages in texts)
            raise ConsumerRefused(f"Consumer {name}: {'; '.join(reasons)}") from None
        consumer.save()
    wake_up(WakeUp.DELIVER)
    return consumer


def keep_default(path: str) -> None:
    new = not Consumer.objects.filter(name=DEFAULT).exists()
    settings = {"history": False, "retry_interval": 5} if new else {}
    keep(DEFAULT, kind=ConsumerKind.IN_PROCESS, path=path, url="", **settings)
