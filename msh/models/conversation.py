"""Conversations whose messages we deliver in the order of MessageOrder: one row each."""

from typing import Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5

from partners.models import Agreement

WAITING = Q(called=True) | Q(due__isnull=False)
"""Messages of it are held: there is no hold without a time, or a call."""


class InboundConversationQuerySet(models.QuerySet["InboundConversation"]):
    def waiting(self) -> Self:
        """Return the waiting conversations by the condition and order of their index: those that
        operators were called for come first."""
        return self.filter(WAITING).order_by("-called", "due", "pk")

    def named(self, conversation_id: str) -> Self:
        """Return the conversations of this name, by the unique index, which begins with the
        agreement."""
        digest = MD5(models.Value(conversation_id))
        known = self.alias(digest=MD5("conversation_id")).filter(digest=digest)
        return known.filter(agreement__in=Agreement.objects.order_by().values("pk"))


class InboundConversation(models.Model):
    """The value of `msh/protocol/flight/conversation.py` for one (agreement, ConversationId). Read
    and written under the lock of its link. The numbers that are held are those of its messages.

    `released_at`: when messages that were held were last released. `last_at`: its last change.
    """

    link = models.ForeignKey(
        "InboundLink", on_delete=models.PROTECT, related_name="conversations", db_index=False
    )
    agreement = models.ForeignKey(
        "partners.Agreement", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation_id = models.TextField("ConversationId")
    next_number = models.PositiveIntegerField(null=True, blank=True)
    due = models.DateTimeField(null=True, blank=True)
    called = models.BooleanField(default=False, db_default=False)
    released_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField()

    objects = InboundConversationQuerySet.as_manager()

    class Meta:
        verbose_name = "conversation from a partner"
        verbose_name_plural = "conversations from partners"
        indexes = [
            models.Index(
                fields=["due"], condition=Q(due__isnull=False), name="in_conversation_due"
            ),
            # Those of a link that lack a number, as its page lists them.
            models.Index(
                fields=["link", "-called", "due"], condition=WAITING, name="in_conversation_waiting"
            ),
        ]
        constraints = [
            # By the digest: a partner may send a ConversationId of any length.
            models.UniqueConstraint(
                "agreement", MD5("conversation_id"), name="in_conversation_once"
            ),
            models.CheckConstraint(
                condition=Q(next_number=None) | Q(next_number__lte=99_999_999),
                name="in_conversation_number_in_range",
            ),
            models.CheckConstraint(
                condition=Q(called=False) | Q(due=None), name="in_conversation_called_once"
            ),
        ]

    def __str__(self) -> str:
        return self.conversation_id
