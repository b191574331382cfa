"""`manage.py plan-maintenance NAME --until TIME --reason TEXT [--from TIME]
[--resume-suspended]`."""

from argparse import ArgumentParser
from typing import Any

from msh.flows.operations import link_actions
from msh.management.actions import ActionCommand, moment
from msh.store.history import Actor
from partners.models import Partner


class Command(ActionCommand):
    action = link_actions.PLAN_MAINTENANCE

    def add_parameters(self, parser: ArgumentParser) -> None:
        zone = "; UTC unless it says otherwise"
        parser.add_argument(
            "--from",
            dest="starts_at",
            metavar="TIME",
            type=moment,
            help=f"when sending is suspended{zone}; default: now",
        )
        parser.add_argument(
            "--until",
            dest="ends_at",
            metavar="TIME",
            type=moment,
            required=True,
            help=f"when it resumes, at most 31 days later{zone}",
        )
        parser.add_argument(
            "--resume-suspended",
            action="store_true",
            help="at the end, also resume a link that was already suspended at the beginning",
        )

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        wanted = {name: options[name] for name in ("starts_at", "ends_at", "resume_suspended")}
        window = self.action.flow(partner, actor, **wanted)
        answer = {"window": window.pk, "starts_at": window.starts_at, "ends_at": window.ends_at}
        said = f"from {window.starts_at:%Y-%m-%d %H:%M} to {window.ends_at:%Y-%m-%d %H:%M} UTC"
        return answer, f"maintenance window {window.pk} is planned {said}."
