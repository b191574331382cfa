"""What to do first on a new MSH: each step goes when it is done, the last one with the first
message."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from msh.admin.framework.actions import Offer
from msh.admin.framework.audited import settings_url
from msh.admin.framework.headline import Jump
from msh.admin.framework.permitted import whom_to_ask
from msh.flows.operations.actions import SEND_TEST_MESSAGE
from msh.flows.operations.configure import IMPORT_PERMISSIONS
from msh.models import InboundMessage, OutboundMessage
from partners.models import Agreement, Partner

_ADD = ("partners.add_partner",)
_CHANGE = ("partners.change_partner",)


@dataclass(frozen=True, slots=True)
class Step:
    """`offers`: what does it. `ask`: who may do it, if this user may not."""

    title: str
    text: str
    jumps: Sequence[Jump] = ()
    ask: str = ""
    offers: Sequence[Offer] = ()


def first_steps(request: HttpRequest) -> Sequence[Step]:
    """Return the steps that are left; none where any message was exchanged."""
    if OutboundMessage.objects.exists() or InboundMessage.objects.exists():
        return ()
    agreement = Agreement.objects.select_related("partner").order_by("pk").first()
    partner = agreement.partner if agreement else Partner.objects.order_by("pk").first()
    return list(_left(request, partner, agreement))


def _left(
    request: HttpRequest, partner: Partner | None, agreement: Agreement | None
) -> Iterator[Step]:
    if partner is None:
        yield _add_partner(request)
    if agreement is None:
        yield _agree(request, partner)
    yield _test(request, agreement)


def _add_partner(request: HttpRequest) -> Step:
    jumps = []
    if request.user.has_perms(_ADD):
        where = reverse("admin:partners_partner_add")
        jumps.append(Jump("Add partner", "add", where, recommended=False))
    if request.user.has_perms(IMPORT_PERMISSIONS):
        where = reverse("admin:partners_agreement_import")
        jumps.append(Jump("Import setup file", "upload", where, recommended=False))
        where = reverse("admin:partners_agreement_loopback")
        jumps.append(Jump("Add loopback partner", "sync", where, False, "Adding …"))
    return Step(
        "Add a partner",
        "Its name, its address and how both sides authenticate. If another MSH has exported its"
        " partners, or you have a setup file, import it: the console shows what it would change"
        " first. To try the MSH without a partner, add the loopback partner: it is this MSH, what"
        " you send to it is acknowledged and comes back.",
        jumps,
        "" if jumps else whom_to_ask(request, _ADD, "add a partner"),
    )


def _agree(request: HttpRequest, partner: Partner | None) -> Step:
    jumps = []
    if partner and request.user.has_perms(_CHANGE):
        where = settings_url(partner, reverse("admin:index"))
        jumps.append(Jump(f"Settings of {partner}", "settings", where, recommended=False))
    return Step(
        "Add an agreement with it",
        "The TPAId and both PartyIds, in the partner's settings or in the setup file. Without an"
        " agreement no message can be sent or received.",
        jumps,
        whom_to_ask(request, _CHANGE, "change a partner"),
    )


def _test(request: HttpRequest, agreement: Agreement | None) -> Step:
    jumps, offers = [], []
    if agreement:
        page: Any = admin.site.get_model_admin(Agreement)
        found = page.offers(request, agreement)
        offers = [one for one in found if one.action.action is SEND_TEST_MESSAGE]
        where = reverse("partner_page", args=[agreement.partner_id])
        jumps.append(Jump(f"Partner {agreement.partner}", "handshake", where, recommended=False))
    return Step(
        "Send a test message",
        "The MSH sends it as any other message. When the partner has acknowledged it, both"
        " directions work.",
        jumps,
        whom_to_ask(request, SEND_TEST_MESSAGE.permissions, "send a test message"),
        [replace(one, recommended=True) for one in offers],
    )
