"""How long ids of messages are kept for partners."""

from partners.models import Agreement


def kept_longer() -> dict[int, str]:
    """By partner id, why ids of its messages are kept for longer than is configured (D39)."""
    reasons: dict[int, str] = {}
    for agreement in Agreement.objects.select_related("partner").order_by("pk"):
        if why := agreement.kept_too_short():
            known = reasons.get(agreement.partner_id)
            reasons[agreement.partner_id] = f"{known}; {why}" if known else f"{why}."
    return reasons
