"""One producer: submits the documents of its pair, one after the other, and keeps a record.

A process of its own, `python -m demo.producer PLAN.json`, with MSH_DATA naming its MSH. A line
is added to the record only after the submit has returned.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from random import Random

import django

from msh import datafolder


@dataclass(frozen=True, slots=True)
class Plan:
    """What one producer has to do. Paths are text, for the plan travels as JSON."""

    pair: str
    tpa_id: str
    record: str
    files: list[str]
    seed: int
    longest_pause: float
    """Seconds between two submits, at most."""


def main(plan_file: str) -> None:
    datafolder.load_from_arguments([])
    django.setup()
    plan = Plan(**json.loads(Path(plan_file).read_text()))
    with Path(plan.record).open("a") as record:
        for line in produce(plan):
            record.write(json.dumps(line) + "\n")
            record.flush()


def produce(plan: Plan) -> Iterator[dict[str, object]]:
    """Submit every file of the plan; yields a line of the record after each."""
    from msh.flows.submit import submit  # noqa: PLC0415 - models need django.setup() first
    from msh.protocol.message import Payload  # noqa: PLC0415
    from partners.models import Agreement  # noqa: PLC0415

    agreement = Agreement.objects.get(tpa_id=plan.tpa_id)
    dice = Random(f"{plan.seed}/{plan.pair}")
    for order, file in enumerate(plan.files):
        content = Path(file).read_bytes()
        payload = Payload(content, content_type=media_type(file), label=Path(file).name)
        message = submit(agreement, "Purchasing", "NewDocument", [payload])
        yield {
            "pair": plan.pair,
            "message_id": message.message_id,
            "order": order,
            "file": file,
            "sha256": sha256(content).hexdigest(),
        }
        time.sleep(dice.uniform(0, plan.longest_pause))


def media_type(file: str) -> str:
    return guess_type(file)[0] or "application/octet-stream"


def write_plan(plan: Plan, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(plan)))


if __name__ == "__main__":
    main(sys.argv[1])
