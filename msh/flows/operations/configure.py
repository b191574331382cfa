"""Partners, agreements and routes from a document, with a record of what it changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Model

from msh.store.history import Actor
from msh.store.operations.operator_actions import open_missing_links
from msh.store.operations.settings_log import Snapshot, record_changes, snapshot
from partners import export, setup
from partners.models import Agreement, Channel, Credential, OwnIdentity, Partner, Route

_SET_UP = (Partner, Agreement, Channel, Credential, Route, OwnIdentity)

EXPORT_PERMISSIONS = tuple(
    f"partners.view_{name}" for name in ("partner", "agreement", "channel", "route")
)
IMPORT_PERMISSIONS = (
    *EXPORT_PERMISSIONS,
    *(
        f"partners.{action}_{name}"
        for action in ("add", "change")
        for name in ("partner", "agreement", "channel", "route", "ownidentity")
    ),
    "partners.delete_channel",
)
DOCUMENT_LIMIT = 5 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the document that a feature takes: how, and into which table."""

    take: setup.Section
    model: type[Model]


class ChangedMeanwhile(Exception):
    """The configuration has changed since the preview. Nothing was changed."""


def apply(
    document: object,
    actor: Actor,
    seen: str = "",
    sections: Mapping[str, Section] = {},
) -> setup.Report:
    """Apply a document, and record every row that it changes.

    `seen` is that of a preview (`partners.export`): nothing else than what was shown is done.
    Raises ChangedMeanwhile, and setup.SetupRefused.
    """
    models = [one.model for one in sections.values()]
    with transaction.atomic():
        export.keep_others_from_writing(*models)
        if seen and export.digest() != seen:
            raise ChangedMeanwhile
        before = _snapshot(models)
        report = setup.apply(document, {name: one.take for name, one in sections.items()})
        record_changes(before, _snapshot(models), actor)
        open_missing_links()
    return report


def _snapshot(more: Sequence[type[Model]]) -> Snapshot:
    models: tuple[type[Model], ...] = (*_SET_UP, *more)
    return snapshot(*(model._default_manager.all() for model in models))  # noqa: SLF001  public
