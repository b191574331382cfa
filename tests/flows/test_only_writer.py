"""State is written by `flows.advance` only (DESIGN 3)."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATE = (
    "(?:Out|In)bound(?:Link|Message)|Attempt|Signal|Incident(?:Note)?|History|PartyEvent|Delivery"
    "|OperatorNotice|Bulk(?:Job|Item)|Traffic"
)
WRITES = re.compile(
    rf"(?:{STATE})\.objects[^#\n]*\.(?:(?:bulk_|update_or_)?create|(?:bulk_)?update|delete)\("
    rf"|\bUPDATE msh_|\bINSERT INTO msh_|\b(?:DELETE FROM|COPY) (?:msh_|{{table)"
)
CALLS_HOT_WRITE = re.compile(
    r"objects\.copy_in\(|handover\.(?:INSERT|UPDATE|LEAVE|SET_ASIDE|RESOLVE)|retention\.deletions"
    r"|hot\.(?:WRITE_|PUT_|COMPLETE_|CANCEL_|RECORD_|COUNT_|COMPOSE_|LEASE_|CLAIM_|END_|OPEN_|RESOLVE_"
    r"|NOTIFY_|ACCEPT_|OWE_|SIGNAL_|REQUEUE_|REWIND_|NOTE_ON_)"
)


def _sources() -> list[Path]:
    return [
        path
        for room in ("msh", "partners")
        for path in (ROOT / room).rglob("*.py")
        if "migrations" not in path.parts
    ]


def test_state_is_written_by_advance_only() -> None:
    writers = {
        str(path.relative_to(ROOT))
        for path in _sources()
        if WRITES.search(path.read_text())
        and not path.is_relative_to(ROOT / "msh/flows/advance")
        and not path.is_relative_to(ROOT / "msh/models/hot")
    }
    models = ("copying", "handover", "retention")
    assert writers == {f"msh/models/{name}.py" for name in models}


def test_the_statements_that_write_are_run_by_advance_only() -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in _sources()
        if CALLS_HOT_WRITE.search(path.read_text()) and "flows/advance" not in str(path)
    }
    assert users == set()
