"""Partners, agreements and routes from a document, with a record of what it changed."""

from collections.abc import Mapping, Sequence

from django.db import transaction
from django.db.models import Model

from msh.store.history import Actor
from msh.store.operations.operator_actions import open_missing_links
from msh.store.operations.settings_log import Snapshot, record_changes, snapshot
from partners import export, setup
from partners.models import Agreement, Credential, OwnIdentity, Partner, Route

_SET_UP = (Partner, Agreement, Credential, Route, OwnIdentity)


class ChangedMeanwhile(Exception):
    """The configuration has changed since the preview. Nothing was changed."""


def apply(
    document: object,
    actor: Actor,
    seen: str = "",
    sections: Mapping[str, setup.Section] = setup.NO_SECTIONS,
    tables: Sequence[type[Model]] = (),
) -> setup.Report:
    """Apply a document, and record every row that it changes.

    `sections` are those of features, which write `tables`.
    `seen` is that of a preview (`partners.export`): nothing else than what was shown is done.
    Raises ChangedMeanwhile, and setup.SetupRefused.
    """
    with transaction.atomic():
        export.keep_others_from_writing(*tables)
        if seen and export.digest() != seen:
            raise ChangedMeanwhile
        before = _snapshot(tables)
        report = setup.apply(document, sections)
        record_changes(before, _snapshot(tables), actor)
        open_missing_links()
    return report


def _snapshot(more: Sequence[type[Model]]) -> Snapshot:
    models = (*_SET_UP, *more)
    return snapshot(*(model._default_manager.all() for model in models))  # noqa: SLF001  public
