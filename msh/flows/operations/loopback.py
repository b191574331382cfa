"""A partner that is this MSH itself: what is sent to it comes back as received and is acknowledged,
so that applications can be tried without a partner. Two rows, as each MSH would have one."""

import secrets
from typing import Any

from django.conf import settings

from msh.flows.operations import configure
from msh.store.history import Actor
from partners.models import Partner
from partners.setup import Report

OUT, BACK = "loopback", "loopback-back"
"""The partner that is sent to, and the one from which it comes back."""
TPA_ID = "loopback"
MOST = 1000
"""Messages that may wait for their consumer. Then the sender, which is us, is asked to wait."""
_NOTES = "A test partner: this MSH itself. Nothing that is sent to it leaves the MSH."


def make(actor: Actor, address: str = "") -> Report:
    """Add the two partners and their agreement, or bring them into this form again. `address`: of
    our own endpoint as our workers reach it, by default MSH_URI. Raises SetupRefused."""
    report = configure.apply(document(address or settings.MSH_URI), actor)
    both = Partner.objects.filter(name__in=(OUT, BACK))
    both.filter(name=OUT).update(display_name="Loopback (test)", notes=_NOTES)
    both.filter(name=BACK).update(display_name="Loopback (test), back", notes=_NOTES)
    return report


def document(address: str) -> dict[str, Any]:
    """The setup document. Tokens are made for partners that are new, or that move: a token is not
    sent to another address than it was made for."""
    here, there = settings.MSH_URI, f"{settings.MSH_URI.rstrip('/')}/loopback/"
    # Quick, for nothing is on the way: who tries something does not want to wait.
    terms = {"tpa_id": TPA_ID, "timeout": 10, "retries": 2, "retry_interval": 10}
    ours = {"our_party": "sender", "their_party": "loopback"}
    theirs = {"our_party": "loopback", "their_party": "sender"}
    out = {"name": OUT, "our_uri": here, "uri": there, "address": address}
    back = {"name": BACK, "our_uri": there, "uri": here, "address": address}
    both = Partner.objects.filter(name__in=(OUT, BACK), address=address)
    if both.count() < 2:
        there_to_here, here_to_there = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        out |= {"token_out": here_to_there, "token_in": there_to_here}
        back |= {"token_out": there_to_here, "token_in": here_to_there}
    return {
        "partners": [
            {**out, "agreements": [terms | ours]},
            {**back, "undelivered_limit": MOST, "agreements": [terms | theirs]},
        ]
    }
