"""Move a partner from one MSH, with its database, to another: numbers, known MessageIds, queue and
open deliveries. It is served by one of both at any time, or by none.

`export` closes the partner here for good; its file is all of it, with credentials and payloads.
`load` opens it there, suspended. What came and went meanwhile is sent again by both ends.
"""

import json
import secrets
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Q, QuerySet

from msh.flows.errors import NotPossible
from msh.models import (
    Consumer,
    Delivery,
    History,
    InboundLink,
    InboundMessage,
    OutboundLink,
    PartyEvent,
)
from msh.protocol.lane import OPERATOR, LaneState
from msh.store import clock, history
from msh.store.delivery.feed import list_in_feed
from msh.store.history import Actor
from msh.store.operations import moving, under_way
from partners import secrecy
from partners.models import Partner, Route

FORMAT = 1
MANIFEST = "manifest.json"
PATIENCE = 60.0
"""Seconds to wait for what is under way."""
LOOK_EVERY = 0.1
LISTED_AT_ONCE = 10_000
_EXPORTED, _IMPORTED, _REOPENED = "PartnerExported", "PartnerImported", "PartnerReopened"


@dataclass(frozen=True, slots=True)
class Moved:
    """`again`: it had been done before, and nothing was changed."""

    partner: str
    again: bool = False


def export(partner: Partner, file: Path, to: str, actor: Actor) -> None:
    """Write everything of a suspended partner to `file`, and serve it no longer. May be repeated:
    nothing changes between two exports. Raises NotPossible."""
    _require_suspended(partner)
    if Route.objects.filter(partner=partner).exists() or under_way.is_routed(partner.pk):
        raise NotPossible(
            f"Messages are forwarded to or from {partner.name}: they belong to two partners, so"
            " it cannot be moved."
        )
    new = file.with_name(f"{file.name}.new")
    _require_writable(new, file)
    _close(partner, to, actor)
    mark = under_way.mark_now()
    _wait_until(lambda: "" if under_way.is_seen_by_all(mark) else "a transaction does not end")
    deadline = settings.MSH_HTTP_DEADLINE + 10
    _wait_until(lambda: under_way.still_at_work(partner.pk, deadline))
    _list_in_feed(partner)
    with suppress(FileNotFoundError):
        file.unlink()
    with transaction.atomic():
        under_way.lock(partner.pk)
        _require_suspended(partner)
        if what := under_way.still_at_work(partner.pk, deadline):
            raise NotPossible(f"{what[0].upper()}{what[1:]}: export again.")
        if _unlisted(partner).exists():
            raise NotPossible("Messages have entered the feed in the meantime: export again.")
        _touch_links(partner)
        _write(partner, new)
    new.replace(file)


def reopen(partner: Partner, actor: Actor) -> None:
    """Serve a partner again that was exported and not imported anywhere. Raises NotPossible."""
    with transaction.atomic():
        moved = _moved(partner)
        if not moved:
            raise NotPossible(f"Partner {partner.name} was not exported.")
        switches = {name: moved[name] for name in ("accepts", "delivers")}
        Partner.objects.filter(pk=partner.pk).update(moved=None, **switches)
        _record(partner.pk, _REOPENED, f"export {moved['export']}", actor)


def load(file: Path, actor: Actor) -> Moved:
    """Serve the partner of the file from here; its link is suspended until an operator resumes it.
    Raises NotPossible."""
    try:
        with zipfile.ZipFile(file) as archive, transaction.atomic():
            manifest = json.loads(archive.read(MANIFEST))
            _require_same_version(manifest)
            before = _partner_here(manifest)
            if before and _was_imported(before, manifest["export"]):
                return Moved(before.name, again=True)
            if before:
                _remove_older(before, manifest["numbers"])
            consumers = _consumers(manifest)
            for table in moving.TABLES:
                with archive.open(table.name) as rows:
                    moving.stage(table, rows)
            partner = moving.insert_staged(consumers)
            if before:
                moving.refer_again(partner)
            _open(partner, manifest, actor)
            return Moved(manifest["partner"])
    except (zipfile.BadZipFile, KeyError, json.JSONDecodeError) as error:
        raise NotPossible(f"{file} is not an export of a partner: {error}") from None


def _require_suspended(partner: Partner) -> None:
    link = OutboundLink.objects.filter(partner=partner).first()
    if link is None or link.state != LaneState.SUSPENDED:
        raise NotPossible(f"Suspend {partner.name} first: nothing may be sent while it is moved.")


def _moved(partner: Partner) -> dict[str, object]:
    kept = Partner.objects.select_for_update(no_key=True).get(pk=partner.pk).moved
    return dict(kept or {})


def _close(partner: Partner, to: str, actor: Actor) -> None:
    """From here on partners and applications are asked to come again later."""
    with transaction.atomic():
        InboundLink.objects.get_or_create(partner=partner)
        moved = _moved(partner)
        if moved and moved["to"] != to:
            raise NotPossible(f"Partner {partner.name} was already exported to {moved['to']}.")
        if moved:
            return
        now = Partner.objects.get(pk=partner.pk)
        moved = {"to": to, "export": secrets.token_hex(8)}
        moved |= {"accepts": now.accepts, "delivers": now.delivers}
        Partner.objects.filter(pk=partner.pk).update(moved=moved, accepts=False, delivers=False)
        _record(partner.pk, _EXPORTED, f"export {moved['export']} to {to}", actor)


def _list_in_feed(partner: Partner) -> None:
    """Here it is read, for it is not new there. Before the lock: others read their feed too."""
    while _unlisted(partner).exists():
        with transaction.atomic():
            list_in_feed(LISTED_AT_ONCE, partner.inbound_link.pk)


def _unlisted(partner: Partner) -> QuerySet[InboundMessage]:
    return partner.inbound_link.messages.filter(feed_position=None).exclude(state="held")


def _touch_links(partner: Partner) -> None:
    """Whoever has decided by what these rows were does not find them unchanged."""
    for model in (OutboundLink, InboundLink):
        row = model.objects.get(partner=partner)
        model.objects.filter(pk=row.pk).update(epoch=row.epoch)


def _record(partner: int, event: str, detail: str, actor: Actor) -> None:
    for direction in ("out", "in"):
        history.record(history.link_row(partner, direction, event, actor, detail=detail))


def _wait_until(what: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE
    while still := what():
        if time.monotonic() > end:
            raise NotPossible(
                f"Still after {PATIENCE:.0f} s: {still}. The partner stays closed: export"
                " again, or reopen it."
            )
        time.sleep(LOOK_EVERY)


def _require_writable(new: Path, file: Path) -> None:
    """Before anything is closed."""
    if file.is_dir():
        raise NotPossible(f"{file} is a folder: specify a file.")
    try:
        new.touch(mode=0o600, exist_ok=False)
        new.unlink()
    except FileExistsError:
        raise NotPossible(
            f"{new} exists: another export writes it, or was broken off. If none is under way,"
            " remove it."
        ) from None
    except OSError as error:
        raise NotPossible(f"{file} cannot be written: {error.strerror}.") from None


def _write(partner: Partner, file: Path) -> None:
    file.touch(mode=0o600, exist_ok=False)
    try:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(MANIFEST, json.dumps(_manifest(partner), indent=2))
            for table in moving.TABLES:
                with archive.open(table.name, "w", force_zip64=True) as rows:
                    moving.dump(table, partner.pk, rows)
    except BaseException:
        file.unlink()
        raise


def _manifest(partner: Partner) -> dict[str, object]:
    kept, moved = Partner.objects.get(pk=partner.pk), _moved(partner)
    used = Delivery.objects.filter(message__link__partner=partner).values("consumer")
    return {
        "format": FORMAT,
        "export": moved["export"],
        "partner": kept.name,
        "pair": [kept.our_uri_normalised, kept.uri_normalised],
        "numbers": _numbers(kept),
        "migrations": _migrations(),
        "consumers": dict(Consumer.objects.filter(pk__in=used).values_list("pk", "name")),
    }


def _numbers(partner: Partner) -> dict[str, list[int]]:
    """Epoch and number of both directions: they never go back."""
    out = OutboundLink.objects.get(partner=partner)
    into = InboundLink.objects.get(partner=partner)
    return {"out": [out.epoch, out.next_number], "in": [into.epoch, into.last_number or 0]}


def _migrations() -> list[str]:
    applied = MigrationRecorder.Migration.objects.filter(app__in=["msh", "partners"])
    return sorted(f"{one.app}.{one.name}" for one in applied)


def _require_same_version(manifest: Mapping[str, object]) -> None:
    if manifest["format"] != FORMAT or manifest["migrations"] != _migrations():
        raise NotPossible(
            "The export was made by another version: both MSHs must have the same version."
        )


def _partner_here(manifest: Mapping[str, Any]) -> Partner | None:
    ours, theirs = manifest["pair"]
    same = Q(name=manifest["partner"]) | Q(our_uri_normalised=ours, uri_normalised=theirs)
    return Partner.objects.select_for_update().filter(same).first()


def _was_imported(partner: Partner, export_id: str) -> bool:
    of_link = History.objects.filter(partner=partner, direction="in", subject=history.LINK)
    return of_link.filter(event=_IMPORTED, detail__startswith=f"export {export_id}").exists()


def _remove_older(partner: Partner, numbers: Mapping[str, list[int]]) -> None:
    """It comes back from where it was moved to."""
    if not partner.moved:
        raise NotPossible(f"Partner {partner.name} is already served here.")
    for direction, present in _numbers(partner).items():
        if numbers[direction] < present:
            raise NotPossible(
                f"The numbers of {partner.name} ({direction}) are older than those here:"
                f" {numbers[direction]}, not {present}. Import a newer export."
            )
    moving.remove(partner.pk)


def _consumers(manifest: Mapping[str, Any]) -> dict[int, int]:
    here = dict(Consumer.objects.values_list("name", "pk"))
    if missing := sorted(set(manifest["consumers"].values()) - here.keys()):
        raise NotPossible(
            f"These consumers do not exist here: {', '.join(missing)}. Create them first."
        )
    return {int(there): here[name] for there, name in manifest["consumers"].items()}


def _open(partner_id: int, manifest: Mapping[str, object], actor: Actor) -> None:
    partner = Partner.objects.get(pk=partner_id)
    if partner.outgoing_secret:
        try:
            secrecy.decrypt(partner.outgoing_secret)
        except secrecy.SecretUnreadableError as error:
            raise NotPossible(str(error)) from None
    moved = _moved(partner)
    switches = {name: moved[name] for name in ("accepts", "delivers")}
    Partner.objects.filter(pk=partner_id).update(moved=None, **switches)
    # Whatever it was suspended for: no probe goes out before requests are led here.
    OutboundLink.objects.filter(partner=partner).update(suspended_for=OPERATOR, probe_due=None)
    # The other MSH still notifies of what happened there.
    told = PartyEvent.objects.filter(message__link__partner=partner_id, delivered_at=None)
    told.update(delivered_at=clock.read_clock())
    _record(partner_id, _IMPORTED, f"export {manifest['export']}", actor)
