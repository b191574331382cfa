"""Filters of lists: one without a value is none."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from msh.admin.framework.filters import PartnerFilter, WordsFilter, moment
from msh.models import OutboundLink
from partners.models import Partner
from tests.admin.conftest import suspended_world, url

pytestmark = pytest.mark.django_db


@pytest.fixture
def filtered() -> list[type[Model]]:
    """Our lists that have filters."""
    reverse("admin:index")  # registers the pages
    ours = {
        model: page
        for model, page in admin.site._registry.items()
        if type(page).__module__.startswith("msh.")
    }
    return [model for model, page in ours.items() if page.list_filter]


AT = datetime(2026, 11, 26, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 min ago", AT - timedelta(minutes=30)),
        ("8 h ago", AT - timedelta(hours=8)),
        ("2d ago", AT - timedelta(days=2)),
        ("today", datetime(2026, 11, 25, 23, 0, tzinfo=UTC)),
        ("yesterday 18:00", datetime(2026, 11, 25, 17, 0, tzinfo=UTC)),
        ("2026-11-21 14:05", datetime(2026, 11, 21, 13, 5, tzinfo=UTC)),
    ],
)
def test_a_time_is_one_of_the_clock_or_one_before_now(text: str, expected: datetime) -> None:
    with timezone.override("Europe/Madrid"):
        assert moment(text, AT) == expected


def test_what_is_no_time_is_said_with_examples() -> None:
    with pytest.raises(ValueError, match=r"last week is not a time .*8 h ago"):
        moment("last week", AT)


def test_a_filter_without_a_value_is_none(filtered: list[type[Model]]) -> None:
    user = User.objects.create_superuser("root")
    tried = set()
    for model in filtered:
        everything = _rows(model, user, {})
        for name in _parameters(model, user):
            tried.add(name)
            assert _rows(model, user, {name: ""}) == everything, f"{model.__name__}: ?{name}="
    assert {"state", "state__exact", "is", "since", "partner"} <= tried


def test_values_of_filters_are_words_with_a_capital(filtered: list[type[Model]]) -> None:
    """F30: "In Flight", "held", "rewound: to be sent again with its number", "SUSPENDED"."""
    user = User.objects.create_superuser("root")
    specs = [(one, _list(one, user, {})) for one in filtered]
    words = [(spec, shown) for _, shown in specs for spec in shown.filter_specs]
    forms: list[Any] = [
        (spec.lookup_kwarg, next(spec.choices(shown))["form"])
        for spec, shown in words
        if isinstance(spec, WordsFilter)
    ]
    found = {str(text) for name, form in forms for _, text in form.fields[name].choices}
    assert {"In flight", "Held", "Rewound", "Suspended", "In doubt", "Accepted"} <= found
    assert [one for one in found if not one[:1].isupper() or "_" in one or one.isupper()] == []


def _list(model: type[Model], user: User, query: dict[str, str]) -> Any:
    request = RequestFactory().get("/", query)
    request.user = user
    return admin.site._registry[model].get_changelist_instance(request)


def _rows(model: type[Model], user: User, query: dict[str, str]) -> str:
    return str(_list(model, user, query).queryset.query)


def _parameters(model: type[Model], user: User) -> set[str]:
    """Those of the form, and the field itself, as it is typed into the address."""
    of_form = {one for spec in _list(model, user, {}).filter_specs for one in _expected(spec)}
    filters: Any = admin.site._registry[model].list_filter
    fields = [one if isinstance(one, str) else one[0] for one in filters if not callable(one)]
    return of_form | set(fields)


def _expected(spec: Any) -> list[str]:
    return [name for name in spec.expected_parameters() if name]


def test_the_list_of_links_with_a_blank_state_has_all_links(administrator: Client) -> None:
    suspended_world()

    listed = administrator.get(url(OutboundLink, "changelist"), {"state": "", "p": ""})

    assert [link.pk for link in listed.context["cl"].result_list] == list(
        OutboundLink.objects.values_list("pk", flat=True)
    )


def test_no_list_has_all_partners_among_its_choices(filtered: list[type[Model]]) -> None:
    """They are found by a part of their name: 1,000 of them would be most of each page."""
    for number in range(60):
        Partner.objects.create(name=f"partner-{number}", uri=f"urn:partner-{number}")
    user = User.objects.create_superuser("root")
    by_partner = []
    for model in filtered:
        shown = _list(model, user, {})
        for spec in shown.filter_specs:
            form: Any = next(iter(spec.choices(shown))).get("form")
            assert str(form).count("<option") < 60, (model, spec)
            if isinstance(spec, PartnerFilter):
                by_partner.append(model.__name__)
    assert {"Incident", "History", "Delivery", "Signal", "Agreement"} <= set(by_partner)
