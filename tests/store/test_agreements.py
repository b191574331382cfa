"""Agreements that are found without the ORM are those that it gives."""

import pytest

from msh.store.sending.agreements import find_agreements
from partners.models import Agreement, Partner
from tests.flows.world import make_world


@pytest.mark.django_db
def test_they_are_those_of_the_orm() -> None:
    world = make_world()
    Agreement.objects.update(retries=7, our_party_context="GLN")
    Partner.objects.update(contact="ann", resume_on_late_ack=True)
    expected = Agreement.objects.filter(tpa_id=world.agreement.tpa_id).order_by("pk")

    found = find_agreements({world.agreement.tpa_id, "another"})

    assert len(found) == 2
    for ours, theirs in zip(found, expected, strict=True):
        assert values_of(ours) == values_of(theirs)
        assert values_of(ours.partner) == values_of(theirs.partner)
    assert find_agreements({"another"}) == []


def values_of(row: Agreement | Partner) -> dict[str, object]:
    """Of all columns, those too that the ORM reads now."""
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
