"""Whether messages to and from a partner have sequence numbers: what only they have is refused."""

from msh.flows.errors import NotPossible
from partners.models import Agreement, Partner
from partners.models.dialects import settings_of


def why_no_numbers(partner: Partner) -> str:
    """Empty for a partner whose messages have them."""
    agreements = Agreement.objects.filter(partner=partner).order_by()
    for dialect in agreements.values_list("dialect", flat=True).distinct():
        if settings_of(dialect).flies:
            return (
                f"Messages to and from partner {partner.name} have no sequence numbers: its"
                f" agreements are of dialect {dialect}."
            )
    return ""


def has_numbers(partner: Partner) -> bool:
    """From agreements that were read with the partner, if they were."""
    return not any(agreement.settings.flies for agreement in partner.agreements.all())


def require_numbers(partner: Partner) -> None:
    """Raises NotPossible."""
    if why := why_no_numbers(partner):
        raise NotPossible(why)
