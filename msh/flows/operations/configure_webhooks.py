"""Webhooks in the document of `manage.py setup`."""

from collections.abc import Mapping
from typing import Any

from msh.flows.sending.webhooks import begin
from msh.models import Webhook
from msh.protocol.kinds import PartyEventKind
from msh.transport import signature
from partners import secrecy
from partners.setup import Setup

_READ: Mapping[str, type] = {
    **dict.fromkeys(("name", "url", "signing_secrets"), str),
    "enabled": bool,
    **dict.fromkeys(("kinds", "partners"), list),
}


def take_webhook(setup: Setup, path: str, document: object) -> None:
    """Add it, or update the one of this name with what the document says. `signing_secrets`: one,
    or two separated by a comma, the new one first; an empty text is none."""
    read = setup.read(path, document, _READ)
    name = setup.required(path, read, "name")
    webhook = Webhook.objects.filter(name=name).first()
    if webhook is None:
        webhook = Webhook()
        begin(webhook)
    plain = ("name", "url", "enabled")
    values: dict[str, object] = {key: read[key] for key in plain if key in read}
    values |= _kinds(setup, path, read) | _signing(setup, path, webhook, read)
    partners = setup.named_partners(path, read)
    if name and setup.keep(path, f"webhook {name}", webhook, values):
        setup.keep_partners(webhook, partners)


def _kinds(setup: Setup, path: str, read: Mapping[str, Any]) -> dict[str, object]:
    known = [kind.value for kind in PartyEventKind]
    for number, kind in enumerate(read.get("kinds", ())):
        if kind not in known:
            says = f"there is no kind {kind!r}. Kinds: {', '.join(known)}."
            setup.problem(f"{path}.kinds[{number}]", says)
    return {"kinds": read["kinds"]} if "kinds" in read else {}


def _signing(
    setup: Setup, path: str, webhook: Webhook, read: Mapping[str, Any]
) -> dict[str, object]:
    if "signing_secrets" not in read:
        return {}
    secrets = tuple(read["signing_secrets"].replace(",", " ").split())
    try:
        for secret in secrets:
            signature.key_of(secret)
        if len(secrets) > signature.KEYS:
            raise ValueError(f"At most {signature.KEYS} secrets sign.")
    except ValueError as problem:
        setup.problem(f"{path}.signing_secrets", str(problem))
        return {}
    try:
        if webhook.signing() == secrets:
            return {}
    except secrecy.SecretUnreadableError:
        pass  # it is replaced
    return {"signing_secrets": secrecy.encrypt(" ".join(secrets)) if secrets else ""}
