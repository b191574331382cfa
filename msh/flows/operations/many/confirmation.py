"""A bulk job begins once, however often its request is repeated: each has a `confirmation`."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, models

from msh.flows.errors import NotPossible
from msh.flows.operations.guard import end_of
from msh.models import ActRequest, BulkJob, place_of
from msh.protocol.four_eyes import Confirmed
from msh.store.clock import read_clock
from msh.store.history import Actor


def new_job(
    action: str,
    actor: Actor,
    confirmation: UUID | None,
    about: str,
    since: datetime,
    partner_id: int | None = None,
) -> BulkJob:
    """Not written yet."""
    return BulkJob(
        action=action,
        since=since,
        actor=actor.name,
        reason=actor.reason,
        confirmation=confirmation,
        about=about,
        partner_id=partner_id,
    )


def begin_once(job: BulkJob, begin: Callable[[BulkJob], BulkJob]) -> BulkJob:
    """The job that the confirmation of this one has begun, or else what `begin` writes, in a
    transaction of its own. Raises NotPossible if the confirmation has begun another job."""
    if begun := _begun(job):
        return begun
    try:
        return begin(job)
    except (IntegrityError, NotPossible):
        if begun := _begun(job):  # meanwhile
            return begun
        raise


def asked_with(
    confirmation: UUID | None, act: str, about: models.Model, actor: Actor
) -> ActRequest | None:
    """The request to a second person that this actor has submitted with this confirmation. Raises
    NotPossible if it is about another row, or was refused, withdrawn or not decided on in time: who
    asks anew does so on purpose."""
    if confirmation is None:
        return None
    of_actor = ActRequest.objects.filter(act=act, asked_by=actor.name)
    asked = of_actor.filter(parameters__confirmation=str(confirmation)).first()
    if asked and asked.about != place_of(about):
        raise NotPossible(
            f"This confirmation belongs to request {asked.pk}, which is about something else:"
            " choose a new one."
        )
    is_confirmed = isinstance(actor.approval, Confirmed)
    if asked and not is_confirmed and (end := end_of(asked, read_clock())):
        raise NotPossible(
            f"{end}. Nothing was done. To ask again, open the dialog again, or send another"
            " confirmation."
        )
    return asked


def _begun(job: BulkJob) -> BulkJob | None:
    if job.confirmation is None:
        return None
    begun = BulkJob.objects.filter(confirmation=job.confirmation).first()
    if begun and _asked_for(begun) != _asked_for(job):
        raise NotPossible(
            f"This confirmation has begun bulk job {begun.pk}, which is about something else:"
            " choose a new one."
        )
    return begun


def _asked_for(job: BulkJob) -> tuple[str, str, datetime]:
    return job.action, job.about, job.since
