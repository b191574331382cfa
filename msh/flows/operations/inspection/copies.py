"""Whether a copy is being sent, and whether the partner has the same content twice, or will have:
what an operator must know about a message, its copies, and those that were submitted for it."""

from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from msh.models import Attempt, OutboundLink, OutboundMessage, OutboundState
from msh.protocol.kinds import Verdict
from msh.store.operations.copies import received_before
from msh.transport.job import GRACE


def longest() -> timedelta:
    """Return the time after which a copy that was claimed is under way no more."""
    return timedelta(seconds=settings.MSH_HTTP_DEADLINE + 2 * GRACE)


def under_way(link: OutboundLink, message: OutboundMessage | None = None) -> bool:
    """Whether a copy of a message on this link, or of this one, is being sent."""
    which = {"message__link": link} if message is None else {"message": message}
    open_attempts = Attempt.objects.filter(**which, ended_at=None)
    return open_attempts.filter(claimed_at__gt=Now() - longest()).exists()


def is_received(message: OutboundMessage) -> bool:
    """By its Acknowledgement, or by the verdict of an operator."""
    return message.state == OutboundState.ACKNOWLEDGED or message.outcome == Verdict.RECEIVED


def has_it_twice(message: OutboundMessage) -> bool:
    """Whether the partner has the message and one that was submitted for it, or may get it."""
    if is_received(message) and message.corrected_by.exists():
        return True
    return message.corrects_id is not None and message.pk in received_before([message.pk])


def story_of_copies(message: OutboundMessage) -> str:
    """Which message stands for which, as sentences with a blank before each; empty if none does."""
    said = ""
    if copy := message.corrected_by.first():
        state = copy.get_state_display()
        said = f" Message {copy} was submitted instead: {state[:1].lower()}{state[1:]}."
        if is_received(message):
            said += f" The partner has this one after all. {_AGREE}"
    if message.corrects_id is None:
        return said
    if earlier := received_before([message.pk]).get(message.pk):
        return (
            f"{said} It stands for message {earlier.message_id}, which the partner has after all."
            f" {_AGREE}"
        )
    return f"{said} It was submitted instead of message {message.corrects}."


def twice_if_sent(message: OutboundMessage, *, sure: bool = False) -> str:
    """Return what to consider before it is submitted again, as a sentence with a blank before it.
    `sure`: only if the partner has the content for certain; empty otherwise."""
    if is_received(message):
        return " The partner has this message: it would get the same content twice."
    if earlier := received_before([message.pk]).get(message.pk):
        return (
            f" This message stands for {earlier.message_id}, which the partner has after all: it"
            " would get the same content twice."
        )
    if sure or message.state != OutboundState.FAILED or message.first_sent_at is None:
        return ""
    return (
        " The partner may have processed the failed message all the same: ask its operator if the"
        " same content twice would do harm."
    )


_AGREE = "It may have the same content twice: agree with it which one counts."
