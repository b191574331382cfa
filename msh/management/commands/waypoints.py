"""`manage.py waypoints`: how many messages have passed each stage."""

from typing import Any

from msh.flows.operations.trace import waypoints
from msh.management.cli import MshCommand


class Command(MshCommand):
    help = "Count what happened to messages, by direction and event."

    def handle(self, *args: Any, **options: Any) -> None:
        counts = waypoints()
        rows = [{"waypoint": name, "count": count} for name, count in counts.items()]
        self.answer_rows(rows, ("waypoint", "count"), as_json=options["json"])
