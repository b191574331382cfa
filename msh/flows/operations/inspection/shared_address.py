"""Whether the address of a partner is another partner's, too: addresses are easily swapped."""

from django.db.models import Q

from msh.protocol.uri import normalised
from partners.models import Partner

_NAMED = 3


def shared_address(partner: Partner) -> str:
    """Return the other partners with this address, as a sentence; empty if there are none. Two
    pairs with the same URI are one MSH, and partners behind one gateway share its address. One
    statement."""
    here = normalised(partner.destination)
    written = Q(address__iexact=here) | Q(address__iexact=partner.destination)
    others = Partner.objects.filter(Q(uri_normalised=here) | written)
    others = others.exclude(pk=partner.pk).exclude(uri_normalised=normalised(partner.uri))
    found = [one for one in others.order_by("name") if here in _addresses(one)]
    if not found:
        return ""
    more = " and others" if len(found) > _NAMED else ""
    names = ", ".join(map(str, found[:_NAMED]))
    return f"The address is the one of {names}{more}, too: check that it is not a mistake."


def _addresses(partner: Partner) -> tuple[str, str]:
    return partner.uri_normalised, normalised(partner.address)
