"""What an error of the database says: that it is gone, that it stays, or neither."""

import pytest
from django.db import Error, InternalError, OperationalError, connection
from psycopg import errors

from msh.flows.sending import one_by_one
from msh.flows.sending.kinds import Unit
from msh.models import OutboundLink
from msh.protocol.lane import LaneState
from msh.store import capacity
from msh.store.sending.isolation import isolate_link
from msh.store.sending.links import OutboundLinks
from tests.flows.world import make_world
from tests.waiting import wait_until


def raised(error: type[Error], cause: Exception) -> Exception:
    made = error("it failed")
    made.__cause__ = cause
    return made


@pytest.mark.parametrize(
    "error",
    [
        raised(InternalError, errors.IdleInTransactionSessionTimeout()),
        raised(OperationalError, errors.lookup("25P03")()),
        raised(OperationalError, errors.AdminShutdown()),
        OperationalError("the connection is lost"),
    ],
    ids=str,
)
def test_a_session_that_is_ended_says_nothing_of_what_was_done_in_it(error: Exception) -> None:
    assert capacity.is_gone(error)
    assert not capacity.is_lasting(error)


@pytest.mark.parametrize("error", [errors.LockNotAvailable(), errors.DeadlockDetected()])
def test_a_lock_that_was_not_had_is_neither(error: Exception) -> None:
    assert not capacity.is_gone(raised(OperationalError, error))
    assert not capacity.is_lasting(raised(OperationalError, error))


@pytest.mark.django_db(transaction=True)
def test_a_process_that_stood_still_in_a_unit_suspends_nobody() -> None:
    """PostgreSQL ends its session, with an error that looks like a defect of the unit."""
    world = make_world()
    world.submit()
    partner_id = world.there.pk

    def stand_still() -> OutboundLinks:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
            cursor.execute("SELECT pg_backend_pid()")
            (session,) = cursor.fetchone()
            wait_until(lambda: not is_there(session))
            cursor.execute("SELECT 1")
        return OutboundLinks.lock([partner_id])

    unit = Unit("it", stand_still, lambda why: isolate_link(partner_id, why, ()))
    with pytest.raises(Error) as failure:
        one_by_one.do(unit, lambda _: None)
    connection.close()

    assert capacity.is_gone(failure.value)
    assert OutboundLink.objects.get(partner=partner_id).state == LaneState.IDLE


def is_there(session: int) -> bool:
    copy = connection.copy()
    try:
        with copy.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)", [session])
            return bool(cursor.fetchone()[0])
    finally:
        copy.close()
