"""Which parties are behind another MSH."""

from django.db import models

from msh.protocol.kinds import RouteMode

from .agreement import Agreement


class RouteManager(models.Manager["Route"]):
    def of(self, agreement: Agreement) -> "Route | None":
        """The route of the messages that come under an agreement; None: they are for us."""
        contexts = {"", agreement.our_party_context}
        routes = self.filter(to_party=agreement.our_party, to_party_context__in=contexts)
        return routes.select_related("partner").order_by("-to_party_context").first()


class Route(models.Model):
    """Messages for a party that are forwarded to a partner (000 §4.1): this makes us their router.

    Each side of the router has an agreement with the same TPAId: with the partner they come from
    its `our_party` is this party, with `partner` its `their_party`.
    """

    to_party = models.CharField("To PartyId", max_length=255)
    to_party_context = models.CharField(
        "its context",
        max_length=255,
        blank=True,
        help_text="As in the agreement of its messages. Empty: any.",
    )
    partner = models.ForeignKey(
        "partners.Partner",
        on_delete=models.CASCADE,
        related_name="routes",
        help_text="The partner to which its messages are forwarded.",
    )
    mode = models.CharField(
        max_length=10,
        choices=[(m.value, m.value) for m in RouteMode],
        default=RouteMode.HOP.value,
        help_text="hop: acknowledged when stored here, then forwarded. end-to-end: acknowledged"
        " when the partner has acknowledged; while the partner is down, all messages of"
        " these senders wait.",
    )

    objects = RouteManager()

    class Meta:
        ordering = ["to_party"]
        constraints = [
            models.UniqueConstraint(
                fields=["to_party", "to_party_context"],
                name="route_once",
                violation_error_message="This party already has a route.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.to_party} by {self.partner}"

    def agreement_onward(self, agreement: Agreement) -> Agreement | None:
        """The agreement under which messages received under `agreement` are forwarded."""
        return Agreement.objects.filter(
            partner=self.partner,
            dialect=agreement.dialect,
            tpa_id=agreement.tpa_id,
            our_party=agreement.their_party,
            their_party=agreement.our_party,
        ).first()
