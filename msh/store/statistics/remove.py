"""What was counted of a partner is forgotten, where all of it is counted again."""

from msh.store.engine import Write, run_all

from .read import COUNTED

# The one that counts waits: it adds to the same rows.
_WAIT = Write("SELECT FROM msh_statisticsprogress WHERE id = 1 FOR UPDATE")
_LESS = ", ".join(f"{name} = whole.{name} - gone.{name}" for name in COUNTED)
_SUMS = ", ".join(f"sum({name}) AS {name}" for name in COUNTED)
_SUBTRACT = Write(f"""
    UPDATE msh_statistics whole SET {_LESS}
    FROM (SELECT unit, begins, {_SUMS} FROM msh_statistics WHERE partner_id = %(partner_id)s
          GROUP BY unit, begins) gone
    WHERE whole.partner_id IS NULL AND whole.unit = gone.unit AND whole.begins = gone.begins
""")
_SUBTRACT_TIMES = Write("""
    UPDATE msh_acknowledgementtime time SET number = time.number - gone.number
    FROM (SELECT unit, begins, bucket, sum(number) AS number
          FROM msh_statistics slot JOIN msh_acknowledgementtime of_slot ON slot_id = slot.id
          WHERE partner_id = %(partner_id)s GROUP BY unit, begins, bucket) gone
    JOIN msh_statistics whole ON whole.partner_id IS NULL AND whole.unit = gone.unit
                             AND whole.begins = gone.begins
    WHERE time.slot_id = whole.id AND time.bucket = gone.bucket
""")
_REMOVE_TIMES = Write("""
    DELETE FROM msh_acknowledgementtime
    WHERE slot_id IN (SELECT id FROM msh_statistics WHERE partner_id = %(partner_id)s)
""")
_REMOVE = Write("DELETE FROM msh_statistics WHERE partner_id = %(partner_id)s")
_REMOVE_SUSPENSIONS = Write("DELETE FROM msh_suspension WHERE partner_id = %(partner_id)s")
_ALL = (_SUBTRACT_TIMES, _SUBTRACT, _REMOVE_TIMES, _REMOVE, _REMOVE_SUSPENSIONS)


def remove_statistics(partner_id: int) -> None:
    """Of this partner, also from what is counted of the whole MSH. In a transaction."""
    run_all([_WAIT(), *(one(partner_id=partner_id) for one in _ALL)])
