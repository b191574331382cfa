"""A message of a partner that we have refused is to be judged anew."""

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.store.history import Actor
from msh.store.operations.operator_actions import take_back_refusal
from partners.models import Partner


def take_back(partner: Partner, message_id: str, actor: Actor) -> str:
    """Forget that it was refused for good, because of our agreement or our clock: the next copy is
    judged as a new message. What the Error said. Raises NotPossible."""
    with transaction.atomic():
        said = take_back_refusal(partner, message_id, actor)
    if said is None:
        raise NotPossible(
            f"No refusal of a message {message_id} of partner {partner.name} is kept."
        )
    return said
