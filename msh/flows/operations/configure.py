"""Partners, agreements, routes and alert recipients from a document, with a record of what it
changed."""

from collections.abc import Mapping

from django.db import transaction

from msh.models import AlertRecipient
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_missing_links
from msh.store.operations.settings_log import Snapshot, record_changes, snapshot
from partners import export, setup
from partners.models import Agreement, Credential, OwnIdentity, Partner, Route

_SET_UP = (Partner, Agreement, Credential, Route, OwnIdentity, AlertRecipient)


class ChangedMeanwhile(Exception):
    """The configuration has changed since the preview. Nothing was changed."""


def apply(
    document: object,
    actor: Actor,
    seen: str = "",
    sections: Mapping[str, setup.Section] = setup.NO_SECTIONS,
) -> setup.Report:
    """Apply a document, and record every row that it changes.

    `seen` is that of a preview (`partners.export`): nothing else than what was shown is done.
    Raises ChangedMeanwhile, and setup.SetupRefused.
    """
    with transaction.atomic():
        export.keep_others_from_writing(AlertRecipient)
        if seen and export.digest() != seen:
            raise ChangedMeanwhile
        before = _snapshot()
        report = setup.apply(document, sections)
        record_changes(before, _snapshot(), actor)
        open_missing_links()
    return report


def _snapshot() -> Snapshot:
    return snapshot(*(model._default_manager.all() for model in _SET_UP))  # noqa: SLF001  public
