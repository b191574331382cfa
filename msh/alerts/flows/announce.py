"""Makes the notices: who is called about what is new, or about what nobody has taken."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msh.alerts.models import AlertRecipient, Channel, OperatorNotice
from msh.alerts.rules.beside import is_said_beside
from msh.alerts.rules.escalation import Rule, turn
from msh.alerts.store import (
    End,
    Subject,
    drop_unreachable,
    hold_back,
    keep_notices,
    late_messages,
    notice_ends,
    set_turns,
    take_subjects,
)
from msh.protocol.severity import severity_of
from msh.store.clock import read_clock
from msh.store.operations.windows import quiet_partners

Recipients = Mapping[int, AlertRecipient]


def make_notices(channels: Collection[str]) -> None:
    """Store the notices that are missing, in the caller's transaction. `channels` are those that
    the settings name."""
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
    turns = [
        (one, turn(rules, severity_of(one.kind), one.partner_id, one.turns)) for one in subjects
    ]
    keep_notices(
        notice
        for one, its_turn in turns
        if not is_said_beside(one.kind, one.beside)
        for notice in (
            *_for_settings(one, channels, now),
            *_for(one, its_turn.called, recipients, now),
        )
    )
    set_turns(
        [
            (one.incident_id, its_turn.next_after)
            for one, its_turn in turns
            if one.incident_id is not None and (its_turn.next_after or one.turns)
        ]
    )
    _hold_back_ends(notice_ends(), recipients, now)
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
        reason=subject.reason,
        at=subject.at,
        due=now,
    )


def held_again(notice: OperatorNotice, wait: timedelta) -> datetime | None:
    """Return until when the next try is held back, if it would be in quiet hours."""
    if notice.recipient is None:
        return None
    then = read_clock() + wait
    if notice.is_end:
        return _end_held_until(notice.recipient, then)
    return notice.recipient.rule.held_until(severity_of(notice.kind), then)


def _hold_back_ends(ends: Iterable[End], recipients: Recipients, now: datetime) -> None:
    keys = defaultdict(list)
    for end in ends:
        keys[end.recipient_id].append(end.id)
    for recipient_id, made in keys.items():
        recipient = recipients.get(recipient_id)
        if recipient and (until := _end_held_until(recipient, now)):
            hold_back(made, until)


def _end_held_until(recipient: AlertRecipient, now: datetime) -> datetime | None:
    """PagerDuty resolves what is over, and wakes nobody."""
    is_silent = recipient.channel == Channel.PAGERDUTY
    return None if is_silent else recipient.rule.end_held_until(now)
