"""Conversations whose messages we deliver in the order of MessageOrder: one row each."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5


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

    class Meta:
        verbose_name = "conversation from a partner"
        verbose_name_plural = "conversations from partners"
        indexes = [
            models.Index(
                fields=["due"], condition=Q(due__isnull=False), name="in_conversation_due"
            ),
            models.Index(fields=["link"], condition=Q(called=True), name="in_conversation_called"),
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
