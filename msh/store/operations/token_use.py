"""When a token of the API was last used."""

from msh.models.api_token import USE_NOTED_EVERY
from msh.store.engine import Write, run

# Requests of one token come at once: one of them writes, and none waits for it.
_NOTE = Write("""
    UPDATE msh_apitoken SET last_used = statement_timestamp()
    WHERE id = (
        SELECT id FROM msh_apitoken
        WHERE id = %(id)s
          AND (last_used IS NULL OR last_used <= statement_timestamp() - %(every)s::interval)
        FOR NO KEY UPDATE SKIP LOCKED)
""")


def note_use(key: int) -> None:
    run(_NOTE(id=key, every=USE_NOTED_EVERY))
