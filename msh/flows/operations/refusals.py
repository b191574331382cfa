"""A message of a partner that we have refused is to be judged anew."""

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.models import Signal, SignalKind
from msh.store import history
from msh.store.history import Actor, HistoryRow
from partners.models import Partner


def take_back(partner: Partner, message_id: str, actor: Actor) -> str:
    """Forget that it was refused for good, because of our agreement or our clock: the next copy is
    judged as a new message. What the Error said. Raises NotPossible."""
    with transaction.atomic():
        refused = (
            Signal.objects.select_for_update(no_key=True)
            .filter(link__partner=partner, kind=SignalKind.ERROR, ref_to_message_id=message_id)
            .exclude(content_digest=None)
            .order_by("pk")
            .first()
        )
        if refused is None:
            raise NotPossible(
                f"No refusal of a message {message_id} of partner {partner.name} is kept."
            )
        same = Signal.objects.filter(
            link=refused.link_id, kind=SignalKind.ERROR, ref_to_message_id=message_id
        )
        same.update(content_digest=None, pending=0)
        detail = history.with_reason(f"{refused.code}: {refused.description}", actor)
        about = (partner.pk, "in", "RefusalTakenBack", message_id)
        history.record(HistoryRow(*about, detail=detail, actor=actor.name))
    return refused.description
