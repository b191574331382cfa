"""State is written by `flows.advance` only."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITES = re.compile(r"\bUPDATE msh_|\bINSERT INTO msh_|\b(?:DELETE FROM|COPY) (?:msh_|{table)")
ORM_WRITES = {
    *("create", "get_or_create", "update_or_create", "bulk_create"),
    *("update", "bulk_update", "save", "delete"),
}
NO_STATE = {
    # Configuration.
    "msh/flows/consumers.py": {"consumer.save"},
    "msh/flows/tokens.py": {"token.save", "ApiToken.objects.filter(name=name).delete"},
    "msh/admin/setup/partner.py": {"formset.save"},
    "partners/models/partner.py": {"super().save"},
    "partners/setup.py": {"Credential.objects.create", "row.save"},
    # A link that was never used, with nothing in it.
    "msh/flows/operate.py": {
        "OutboundLink.objects.get_or_create",
        "InboundLink.objects.get_or_create",
    },
    # No row: Redis, a digest, a dict, a set.
    "msh/flows/nudge.py": {"_client().delete", "client.delete"},
    "msh/flows/submit.py": {"digest.update"},
    "msh/flows/submit_many.py": {"self.update", "self.closed.update"},
    "msh/transport/carrier.py": {"self._under_way.update"},
    "msh/wire/trp/envelope.py": {"digest.update"},
    "msh/wire/trp/reader.py": {"branch.update"},
}
"""What is called outside `advance` by the name of a write of Django's, and writes no state."""
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


def orm_writes(source: str) -> set[str]:
    """What is called that is named as a write of Django's, however it is laid out."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call, ast.Attribute))
    return {ast.unparse(call) for call in named if call.attr in ORM_WRITES}


def test_a_write_is_seen_however_it_is_laid_out() -> None:
    source = "found = Delivery.objects.filter(\n    state='new',\n)\nfound.update(\n    state='x')"
    assert orm_writes(source) == {"found.update"}
    assert orm_writes("for row in rows:\n    row.save()") == {"row.save"}
    assert orm_writes("Delivery.objects.filter(pk=1).count()") == set()


def test_the_orm_writes_state_in_advance_only() -> None:
    writes = {
        str(path.relative_to(ROOT)): names
        for path in _sources()
        if not path.is_relative_to(ROOT / "msh/flows/advance")
        and (names := orm_writes(path.read_text()))
    }
    assert writes == NO_STATE


def test_sql_that_writes_state_is_in_advance_and_a_few_models_only() -> None:
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
