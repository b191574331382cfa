"""The sending application of django-pyas2. It runs in the virtual environment of `as2.py`.

`partners SIDE URL` writes organisations and partners; `send MODE CLIENTS MESSAGES FILE` waits for a
line and then has so many clients send so many messages each.
"""

import multiprocessing
import sys
from pathlib import Path

import django

MODES = ("SYNC", "ASYNC")
"""Of receipts. There is one receiver for each."""


def partners(side: str, url: str) -> None:
    from pyas2.models import Organization, Partner  # noqa: PLC0415

    names = {"sender": ["sender"], "receiver": [_receiver(mode) for mode in MODES]}
    for name in names[side]:
        Organization.objects.create(name=name, as2_name=name)
    for name in names["receiver" if side == "sender" else "sender"]:
        mode = "ASYNC" if name == _receiver("ASYNC") else "SYNC"
        Partner.objects.create(
            name=name, as2_name=name, target_url=url, mdn=True, mdn_mode=mode, compress=False
        )


def send(mode: str, clients: int, messages: int, file: str) -> None:
    payload = Path(file).read_bytes()
    fork = multiprocessing.get_context("fork")
    begin = fork.Barrier(clients + 1)
    processes = [
        fork.Process(target=_send, args=(mode, f"{mode}-{number}", messages, payload, begin))
        for number in range(clients)
    ]
    for process in processes:
        process.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    begin.wait()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a client failed")
    sys.stdout.write("done\n")
    sys.stdout.flush()


def _send(mode: str, client: str, messages: int, payload: bytes, begin: "object") -> None:
    from pyas2.models import Message, Organization, Partner  # noqa: PLC0415
    from pyas2lib import Message as As2Message  # noqa: PLC0415

    organization = Organization.objects.get(as2_name="sender")
    partner = Partner.objects.get(as2_name=_receiver(mode))
    begin.wait()  # type: ignore[attr-defined]
    # As its own command sendas2message does it.
    for number in range(messages):
        name = f"{client}-{number}.xml"
        as2message = As2Message(sender=organization.as2org, receiver=partner.as2partner)
        as2message.build(
            payload,
            filename=name,
            subject=partner.subject,
            content_type=partner.content_type,
            disposition_notification_to="no-reply@pyas2.com",
        )
        message, _ = Message.objects.create_from_as2message(
            as2message=as2message, payload=payload, filename=name, direction="OUT", status="P"
        )
        message.send_message(as2message.headers, as2message.content)
        if message.status not in {"S", "P"}:
            raise SystemExit(f"{message.status}: {message.detailed_status}")


def _receiver(mode: str) -> str:
    return f"receiver-{mode.lower()}"


if __name__ == "__main__":
    django.setup()
    if sys.argv[1] == "partners":
        partners(sys.argv[2], sys.argv[3])
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
