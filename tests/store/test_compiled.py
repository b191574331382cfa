"""A query of the ORM that is compiled once gives what the ORM gives."""

import pytest
from django.contrib.auth.models import User
from django.db.models import F, Value
from django.db.models.functions import Concat

from msh.store.compiled import Compiled


@pytest.mark.django_db
def test_it_gives_what_the_orm_gives() -> None:
    for name in ("ann", "bob %s", "100 % ä"):
        User.objects.create(username=name)
    by_name = Compiled(
        str, lambda name: User.objects.filter(username=name).values_list(F("id"), F("is_staff"))
    )
    share = Concat(F("username"), Value(" 100 %"))
    by_id = Compiled(int, lambda key: User.objects.filter(pk=key).values_list(share))
    for user in User.objects.all():
        assert by_name.first(user.username) == (user.pk, False)
        assert by_id.first(user.pk) == (f"{user.username} 100 %",)
    assert by_name.first("nobody") is None


@pytest.mark.django_db
def test_a_query_that_does_not_ask_for_the_value_is_refused() -> None:
    nothing = Compiled(int, lambda key: User.objects.filter(pk=1).values_list(F("id")))
    with pytest.raises(ValueError, match="does not ask"):
        nothing.first(1)
