"""How calls go out: by mail, or by POSTs. Nothing here reads or writes a row."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import EmailMessage, get_connection

from msh.alerts.models import AlertRecipient, Channel, addresses_of
from msh.flows.errors import NotPossible
from msh.transport import signature
from msh.transport.webhook import WebhookFailed, post
from partners.secrecy import SecretUnreadableError

from . import bodies
from .call import Call, call_for_test

POST_DEADLINE = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Target:
    """Where the calls of one recipient go. `key`: the Authorization header, or the routing key."""

    channel: str
    addresses: tuple[str, ...] = ()
    url: str = ""
    key: str = ""
    signing: tuple[str, ...] = ()

    @property
    def is_one_by_one(self) -> bool:
        """Each call is an event of its own, with an end of its own."""
        return self.channel == Channel.PAGERDUTY

    def without_secrets(self, text: str) -> str:
        """What a server says back may have what it was sent."""
        path = self.url.partition("://")[2].partition("/")[2]
        for secret in (self.url, path, self.key, self.key.rpartition(" ")[2]):
            text = text.replace(secret, "…") if len(secret) > 3 else text
        return text


class MailFailed(OSError):
    """Our mail host did not take a mail. The text names it, and says why."""


class NoAddress(Exception):
    """Nobody with the role of a recipient has a mail address."""


def target_of(recipient: AlertRecipient) -> Target:
    """Return where its calls go: it reads who has its role now. Raises SecretUnreadableError,
    NoAddress."""
    if recipient.channel != Channel.EMAIL:
        signing = recipient.signing() if recipient.channel == Channel.WEBHOOK else ()
        return Target(recipient.channel, url=recipient.url(), key=recipient.key(), signing=signing)
    found = addresses_of(recipient.addresses)
    if recipient.role_id:
        users = User.objects.filter(groups=recipient.role_id, is_active=True).exclude(email="")
        found += users.order_by("pk").values_list("email", flat=True)
    if not found:
        raise NoAddress(f"no active user with the role {recipient.role} has an e-mail address")
    return Target(Channel.EMAIL, tuple(dict.fromkeys(found)))


def targets_of_settings() -> dict[str, Target]:
    """Return those whom the settings name, by channel. They are called about everything at once."""
    targets = {}
    if settings.MSH_OPERATORS_EMAIL:
        addresses = tuple(settings.MSH_OPERATORS_EMAIL)
        targets[Channel.EMAIL.value] = Target(Channel.EMAIL, addresses)
    if settings.MSH_OPERATORS_WEBHOOK:
        targets[Channel.WEBHOOK.value] = Target(
            Channel.WEBHOOK,
            url=settings.MSH_OPERATORS_WEBHOOK,
            key=settings.MSH_OPERATORS_WEBHOOK_AUTHORIZATION,
            signing=tuple(settings.MSH_OPERATORS_WEBHOOK_SIGNING),
        )
    return targets


def send(target: Target, calls: Sequence[Call], *, digest: bool = False) -> str:
    """Send them as one, and return what was answered. Raises OSError, WebhookFailed."""
    try:
        if target.channel == Channel.EMAIL:
            return _mail(target, calls, digest=digest)
        return target.without_secrets(_post(target, calls, digest=digest))
    except WebhookFailed as failure:
        raise WebhookFailed(target.without_secrets(str(failure))) from None


def words_of(error: Exception) -> str:
    """Return why a call could not be made, in one line for operators."""
    return str(error) if isinstance(error, MailFailed) else f"{type(error).__name__}: {error}"


def send_test_call(recipient: AlertRecipient) -> str:
    """Send a test call, and return what the channel answered. PagerDuty gets its end too, so that
    nothing stays open there. Raises NotPossible with what went wrong."""
    try:
        target = target_of(recipient)
        call = call_for_test(recipient.pk)
        answer = send(target, [call])
        if target.channel == Channel.PAGERDUTY:
            answer += f"; resolved: {send(target, [replace(call, is_end=True)])}"
    except (OSError, WebhookFailed, SecretUnreadableError, NoAddress) as error:
        raise NotPossible(words_of(error)) from None
    return answer


def _mail(target: Target, calls: Sequence[Call], *, digest: bool) -> str:
    mail = EmailMessage(
        subject=f"[MSH] {bodies.headline(calls, digest=digest)}",
        body=bodies.mail(calls, digest=digest),
        from_email=settings.MSH_OPERATORS_EMAIL_FROM,
        to=list(target.addresses),
        headers={"Message-ID": _message_id(calls)},
        connection=get_connection(),
    )
    where = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    try:
        mail.send()
    except OSError as error:
        # That of an answer of the mail host is bytes, beside its code.
        words = error.strerror if isinstance(error.strerror, str) else str(error)
        raise MailFailed(f"The mail host {where}: {words}") from error
    return f"the mail host {where} accepted it for {', '.join(target.addresses)}"


def _message_id(calls: Sequence[Call]) -> str:
    """Return a MessageId that is the same when the same calls are tried again. Mail hosts drop a
    mail whose id they know: one with other calls, and each test call, has another."""
    return f"<{_identifier(calls)}@{settings.MSH_MAIL_DOMAIN}>"


def _identifier(calls: Sequence[Call]) -> str:
    numbers = " ".join(str(call.notice) for call in calls if call.notice)
    name = sha256(numbers.encode()).hexdigest()[:32] if numbers else uuid4().hex
    return f"msh-notice-{name}"


_BODIES: dict[str, Callable[..., bodies.Body]] = {
    Channel.WEBHOOK: bodies.webhook,
    Channel.SLACK: bodies.slack,
    Channel.TEAMS: bodies.teams,
}


def _post(target: Target, calls: Sequence[Call], *, digest: bool) -> str:
    if target.channel == Channel.PAGERDUTY:
        (call,) = calls
        body = json.dumps(bodies.pagerduty(call, target.key)).encode()
        return post(target.url, body, "", POST_DEADLINE)
    authorization = target.key if target.channel == Channel.WEBHOOK else ""
    body = json.dumps(_BODIES[target.channel](calls, digest=digest)).encode()
    headers = signature.signed(target.signing, _identifier(calls), body)
    return post(target.url, body, authorization, POST_DEADLINE, headers)
