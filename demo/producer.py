"""Producers that share a process: it submits the documents of many pairs, those of one pair one
after the other, and keeps a record for each.

`python -m demo.producer PLANS.json`, with MSH_DATA naming its MSH. A line is added to a record
only after the submit has returned. SIGTERM ends the process between two submits, so that no
message is in the MSH that its record does not have.
"""

import heapq
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from random import Random

import django

from msh.standalone import datafolder


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
    conversations: int = 0
    """Among which messages are dealt out; 0: each has its own."""


def main(plans_file: str) -> None:
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    plans = [Plan(**plan) for plan in json.loads(Path(plans_file).read_text())]
    datafolder.load_from_arguments([])
    django.setup()
    produce(plans, ending)


def produce(plans: Sequence[Plan], ending: threading.Event) -> None:
    """Submit every file of every plan, each plan at its own pace, until `ending` is set."""
    producers = [submissions(plan) for plan in plans]
    due = [(0.0, number) for number in range(len(plans))]
    while due:
        at, number = heapq.heappop(due)
        if ending.wait(max(0.0, at - time.monotonic())):
            return
        pause = next(producers[number], None)
        if pause is not None:
            heapq.heappush(due, (time.monotonic() + pause, number))


def submissions(plan: Plan) -> Iterator[float]:
    """Submit one file of the plan at each step; yields the seconds to pause after it."""
    from msh.flows.sending.submit import submit  # noqa: PLC0415 - models need django.setup() first
    from msh.protocol.message import Payload  # noqa: PLC0415
    from partners.models import Agreement  # noqa: PLC0415

    agreement = Agreement.objects.get(tpa_id=plan.tpa_id)
    dice = Random(f"{plan.seed}/{plan.pair}")
    for order, file in enumerate(plan.files):
        content = Path(file).read_bytes()
        payload = Payload(content, content_type=media_type(file), label=Path(file).name)
        talk = _conversation(plan, dice)
        began = time.time()
        message = submit(agreement, "Purchasing", "NewDocument", [payload], conversation_id=talk)
        line = {
            "pair": plan.pair,
            "conversation": talk or "",
            "message_id": message.message_id,
            "order": order,
            "file": file,
            "sha256": sha256(content).hexdigest(),
            "at": began,
            "seconds": time.time() - began,
        }
        with Path(plan.record).open("a") as record:
            record.write(json.dumps(line) + "\n")
        yield dice.uniform(0, plan.longest_pause)


def _conversation(plan: Plan, dice: Random) -> str | None:
    if not plan.conversations:
        return None
    return f"{plan.pair}-{dice.randrange(plan.conversations)}"


def media_type(file: str) -> str:
    return guess_type(file)[0] or "application/octet-stream"


def write_plans(plans: Sequence[Plan], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(plan) for plan in plans]))


if __name__ == "__main__":
    main(sys.argv[1])
