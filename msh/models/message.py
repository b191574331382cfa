"""How messages are found among millions: each condition is one that an index answers.

The indexes begin with the link, because that is what the hot path needs; a condition without a
partner names every link, which costs one probe for each.
"""

from typing import Any, Self, TypeVar

from django.db import models

from partners.models import Agreement

Message = TypeVar("Message", bound=models.Model)


class MessageQuerySet(models.QuerySet[Message, Message]):
    """Of outbound or inbound messages. Values are whole: nothing is searched within them."""

    def of_partner(self, partner_id: int) -> Self:
        return self.filter(link__in=self._links(partner_id=partner_id))

    def with_message_id(self, message_id: str) -> Self:
        return self.filter(link__in=self._links(), message_id=message_id)

    def with_id(self, value: str) -> Self:
        """Those whose MessageId or ConversationId it is."""
        by_message_id = models.Q(link__in=self._links(), message_id=value)
        return self.filter(by_message_id | models.Q(conversation_id=value))

    def numbered(self, sequence_number: int) -> Self:
        links = self._link_model().objects
        last = links.aggregate(last=models.Max("epoch"))["last"] or 0
        epochs = list(range(1, last + 1))
        return self.filter(
            link__in=self._links(), epoch__in=epochs, sequence_number=sequence_number
        )

    def under_tpa(self, tpa_id: str) -> Self:
        agreements = dict(Agreement.objects.filter(tpa_id=tpa_id).values_list("pk", "partner_id"))
        links = self._links(partner_id__in=agreements.values())
        return self.filter(link__in=links, agreement__in=agreements)

    def in_state(self, state: str) -> Self:
        return self.filter(state=state)

    def _links(self, **conditions: Any) -> list[int]:
        """As a list: the planner then probes for each, whatever it thinks of the tables' sizes."""
        links = self._link_model().objects.filter(**conditions)
        return list(links.values_list("pk", flat=True))

    def _link_model(self) -> Any:
        return self.model._meta.get_field("link").related_model  # noqa: SLF001  public
