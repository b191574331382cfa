"""JSON is written to the letter as rest_framework writes it."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.utils.translation import gettext_lazy
from rest_framework.renderers import JSONRenderer

from msh.api.framework.rendering import JsonRenderer
from msh.protocol.reason import Refusal

DAY = date(2026, 11, 28)


@pytest.mark.parametrize(
    "value",
    [
        {"results": [{"id": 1, "size": None, "more": True}], "next": -(2**63)},
        datetime(2026, 11, 28, 1, 2, 3, 450_000, UTC),
        datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC),
        datetime(2026, 11, 28, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))),
        [DAY, time(1, 2, 3), timedelta(seconds=90), Decimal("1.50"), 0.1, 1e300],
        [UUID(int=7), gettext_lazy("Password"), b"text", Refusal.BUSY, {1: "one"}, (1, 2)],
        'quotes " and \\, lines \n\r\t\x00\x1f, é, 漢, 🜨, </script>, \x7f',
    ],
)
def test_as_rest_framework_writes_it(value: Any) -> None:
    assert JsonRenderer().render({"value": value}) == JSONRenderer().render({"value": value})


def test_no_content_is_no_body() -> None:
    assert JsonRenderer().render(None) == b""


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        JsonRenderer().render({"value": object()})
