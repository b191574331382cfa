"""From its first message on, a pair keeps its names (D16)."""

from partners.models import Partner


def mark_in_use(partner: Partner) -> None:
    """Say that messages were exchanged with this partner. Free of charge after the first."""
    if not partner.in_use:
        Partner.objects.filter(pk=partner.pk, in_use=False).update(in_use=True)
