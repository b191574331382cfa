"""Makes the notices: who is called about what is new, or about what nobody has taken."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msh.models import AlertRecipient, Channel, OperatorNotice
from msh.protocol.alerts.escalation import Rule, turn
from msh.protocol.alerts.severity import severity_of
from msh.store.clock import read_clock
from msh.store.operations.notices import (
    Subject,
    drop_unreachable,
    keep_notices,
    late_messages,
    notice_ends,
    set_turns,
    take_subjects,
)
from msh.store.operations.windows import quiet_partners

Recipients = Mapping[int, AlertRecipient]


def make_notices(channels: Collection[str]) -> None:
    """In the caller's transaction. `channels`: of those whom the settings name."""
    now = read_clock()
    quiet = quiet_partners(now)
    recipients = {
        one.pk: one
        for one in AlertRecipient.objects.filter(enabled=True).prefetch_related("partners")
    }
    rules = [one.rule for one in recipients.values()]
    subjects = [one for one in take_subjects(quiet) if not one.passed]
    if channels or rules:
        subjects += late_messages(quiet)
    called = [
        (one, turn(rules, severity_of(one.kind), one.partner_id, one.turns)) for one in subjects
    ]
    keep_notices(
        notice
        for one, now_called in called
        for notice in (
            *_for_settings(one, channels, now),
            *_for(one, now_called.called, recipients, now),
        )
    )
    set_turns(
        [
            (one.incident_id, found.next_after)
            for one, found in called
            if one.incident_id is not None and (found.next_after or one.turns)
        ]
    )
    notice_ends()
    drop_unreachable()


def _for_settings(
    subject: Subject, channels: Iterable[str], now: datetime
) -> Iterator[OperatorNotice]:
    if not subject.turns:
        yield from (_notice(subject, channel, now) for channel in channels)


def _for(
    subject: Subject, called: Iterable[Rule], recipients: Recipients, now: datetime
) -> Iterator[OperatorNotice]:
    for rule in called:
        recipient = recipients[rule.key]
        notice = _notice(subject, recipient.channel, now)
        until = rule.held_until(severity_of(subject.kind), now)
        notice.recipient, notice.to = recipient, recipient.name
        notice.held, notice.due = until is not None, until or now
        notice.wants_end = recipient.on_end or recipient.channel == Channel.PAGERDUTY
        yield notice


def _notice(subject: Subject, channel: str, now: datetime) -> OperatorNotice:
    return OperatorNotice(
        cause=subject.cause,
        channel=channel,
        partner_id=subject.partner_id,
        incident_id=subject.incident_id,
        kind=subject.kind,
        severity=severity_of(subject.kind),
        message_id=subject.message_id,
        detail=subject.detail,
        at=subject.at,
        due=now,
    )


def held_again(notice: OperatorNotice, wait: timedelta) -> datetime | None:
    """Until when the next try is held back, if it would be in quiet hours."""
    if notice.recipient is None or notice.is_end:
        return None
    rule = notice.recipient.rule
    return rule.held_until(severity_of(notice.kind), read_clock() + wait)
