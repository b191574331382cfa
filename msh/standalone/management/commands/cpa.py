"""`manage.py cpa FILE`: a partner and an agreement from a CPA 2.0, or the CPA of an agreement."""

import getpass
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError

from msh.flows.operations.configure import ChangedMeanwhile
from msh.flows.operations.cpas import CpaRefused, Plan, Wanted, carry_out, made_of, plan, stored
from msh.management.cli import MshCommand
from msh.store.history import Actor
from msh.wire.cpa import LIMIT
from partners.models import Agreement


class Command(MshCommand):
    help = (
        "Add or update a partner, its agreement and channels from a CPA 2.0, all or nothing, and"
        " keep the CPA. Says what would change, and what of it is not supported."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--we", default="", metavar="PARTYID", help="a PartyId of ours (default: as agreed yet)"
        )
        parser.add_argument(
            "--partner", default="", metavar="NAME", help="the partner (default: by its PartyId)"
        )
        parser.add_argument(
            "--certificate",
            type=Path,
            metavar="PEM",
            help="the certificate of the partner, if the CPA has only its name",
        )
        parser.add_argument(
            "--export",
            default="",
            metavar="CPAID",
            help="write FILE: the CPA that this agreement was made from, or one made of it",
        )
        parser.add_argument("--dry-run", action="store_true", help="change nothing")
        parser.add_argument(
            "--not-yet", action="store_true", help="also one that is proposed, or begins later"
        )

    def handle(
        self, *args: object, file: Path, certificate: Path | None, dry_run: bool, **options: str
    ) -> None:
        if options["export"]:
            self._export(file, options["export"], options["partner"])
            return
        pem = _read(certificate).decode("ascii", "replace") if certificate else ""
        wanted = Wanted(options["we"], options["partner"], pem, bool(options["not_yet"]))
        try:
            planned = plan(_read(file), wanted)
            if not dry_run:
                carry_out(planned, Actor(getpass.getuser(), f"manage.py cpa {file.name}"))
        except CpaRefused as refused:
            raise CommandError(f"{file} was not imported:\n{refused}") from None
        except ChangedMeanwhile:
            raise CommandError("The configuration has changed meanwhile. Try again.") from None
        self.answer(_as_json(planned, applied=not dry_run), _in_words(planned, applied=not dry_run))

    def _export(self, file: Path, cpa_id: str, partner: str) -> None:
        of_partner = {"partner": self.partner(partner)} if partner else {}
        found = list(Agreement.objects.filter(dialect="ebms2", tpa_id=cpa_id, **of_partner))
        if len(found) != 1:
            many = "several agreements" if found else "no ebMS 2.0 agreement"
            raise CommandError(f"There are {many} with CPAId {cpa_id!r}: see --partner.")
        kept = stored(found[0])
        try:
            content = bytes(kept.content) if kept else made_of(found[0])
            file.write_bytes(content)
        except CpaRefused as refused:
            raise CommandError(str(refused)) from None
        except OSError as problem:
            raise CommandError(f"{file} cannot be written: {problem.strerror}.") from None
        what = f"as it was imported on {kept.imported_at:%Y-%m-%d}" if kept else "made of it"
        answer = {"cpa_id": cpa_id, "imported": kept is not None, "bytes": len(content)}
        self.answer(answer, f"{file}: the CPA of agreement {cpa_id}, {what}.")


def _as_json(planned: Plan, *, applied: bool) -> dict[str, object]:
    return {
        "cpa_id": planned.cpa.cpa_id,
        "version": planned.cpa.version,
        "we": planned.cpa.ours.name,
        "partner": planned.partner,
        "applied": applied,
        "under_way": planned.under_way,
        "notes": planned.notes,
        **planned.preview.report.as_json(),
    }


def _in_words(planned: Plan, *, applied: bool) -> str:
    cpa = planned.cpa
    lines = [
        f"CPA {cpa.cpa_id}, from {cpa.start:%Y-%m-%d} to {cpa.end:%Y-%m-%d}.",
        f"We are {cpa.ours.name}; {cpa.theirs.name} is partner {planned.partner}.",
        *(f"Note: {note}" for note in planned.notes),
        *([str(one) for one in planned.changes] or ["No changes."]),
        *planned.preview.diff,
    ]
    if planned.changes and planned.under_way:
        lines.append(f"Messages under way under it: {planned.under_way}.")
    if planned.changes and not applied:
        lines.append("Nothing was changed: --dry-run.")
    return "\n".join(lines)


def _read(file: Path) -> bytes:
    """No more than a CPA may have, and one octet."""
    try:
        with file.open("rb") as opened:
            return opened.read(LIMIT + 1)
    except OSError as problem:
        raise CommandError(f"{file} cannot be read: {problem.strerror}.") from None
