"""The bodies of calls, as each channel documents them. Pure: of calls."""

import json
from collections.abc import Sequence
from typing import Any

from .call import Call

SHOWN = 10
"""Calls that one card shows; more are counted."""
_SLACK_HEADER, _SLACK_TEXT = 150, 3000
_PAGERDUTY_SUMMARY = 1024
_TEAMS_CARD, _TEAMS_TEXT = 28_000, 3000
"""Bytes as JSON: Teams refuses more than 28 KB, and a few calls fit in it whatever they say."""

Body = dict[str, Any]


def headline(calls: Sequence[Call], *, digest: bool) -> str:
    if digest:
        return f"{len(calls)} notification{'s' * (len(calls) > 1)} held back in quiet hours"
    others = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"{calls[0].headline}{others}"


def document_of(call: Call) -> Body:
    """Return the document of one call, for our own webhook and for mail."""
    return {
        "notice": call.notice,
        "partner": call.partner,
        "severity": call.severity,
        "what": call.what,
        "problem": call.title,
        "what_to_do": call.advice,
        "message_id": call.message_id,
        "detail": call.detail,
        "since": call.since,
        "state": "over" if call.is_end else call.state or "open",
        "console": call.console,
    }


def webhook(calls: Sequence[Call], *, digest: bool) -> Body:
    return {
        "msh": calls[0].msh,
        "digest": digest,
        "notices": [document_of(call) for call in calls],
    }


def mail(calls: Sequence[Call], *, digest: bool) -> str:
    begin = f"MSH {calls[0].msh}\n"
    if digest:
        begin += f"{headline(calls, digest=True)}.\n"
    return "\n".join((begin, *(_paragraph(document_of(call)) for call in calls)))


def _paragraph(document: Body) -> str:
    document = {**document, "what": document["what"].replace("_", " ")}
    lines = (f"{name.replace('_', ' ')}: {value}\n" for name, value in document.items() if value)
    return "".join(lines)


def slack(calls: Sequence[Call], *, digest: bool) -> Body:
    """Return the body for an incoming webhook: blocks, and a text for notifications and screen
    readers."""
    title = headline(calls, digest=digest)
    blocks: list[Body] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(title, _SLACK_HEADER)}}
    ]
    blocks += [
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": _cut(_slack_text(call), _SLACK_TEXT)},
        }
        for call in calls[:SHOWN]
    ]
    footer = " · ".join(one for one in (_escaped(calls[0].msh), _others(calls)) if one)
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": footer}]})
    return {"text": _escaped(title), "blocks": blocks}


def _slack_text(call: Call) -> str:
    """The link comes first, so that no long detail cuts it off."""
    lines = [
        f"*<{call.console}|{_escaped(call.headline)}>*",
        _escaped(call.state),
        f"*What to do:* {_escaped(call.advice)}" if call.advice else "",
        f"MessageId: {_escaped(call.message_id)}" if call.message_id else "",
        f"Since {call.since}" if call.since else "",
        _escaped(call.detail),
    ]
    return "\n".join(line for line in lines if line)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def teams(calls: Sequence[Call], *, digest: bool) -> Body:
    """Return the body for a workflow "when a Teams webhook request is received": one adaptive card,
    with as many of the calls as Teams takes."""
    shown = min(len(calls), SHOWN)
    while _size(card := _card(calls, shown, digest=digest)) > _TEAMS_CARD and shown > 1:
        shown -= 1
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _card(calls: Sequence[Call], shown: int, *, digest: bool) -> Body:
    title = {"type": "TextBlock", "size": "Large", "weight": "Bolder", "wrap": True}
    body: list[Body] = [{**title, "text": _plain(headline(calls, digest=digest))}]
    for call in calls[:shown]:
        body.extend(_teams_blocks(call, alone=len(calls) == 1 and not digest))
    if others := len(calls) - shown:
        where = f"[incidents in the console]({_console_of(calls[0])}msh/incident/)"
        body.append(_text(f"There are {others} more: {where}."))
    body.append({**_text(calls[0].msh), "isSubtle": True, "size": "Small"})
    where = calls[0].console if len(calls) == 1 else _console_of(calls[0])
    return {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": "Open in the console", "url": where}],
    }


def _teams_blocks(call: Call, *, alone: bool) -> list[Body]:
    facts = {
        "Partner": call.partner,
        "Severity": call.severity,
        "State": call.state,
        "MessageId": call.message_id,
        "Since": call.since,
        "Detail": call.detail,
        "What to do": call.advice,
    }
    shown = [{"title": name, "value": _plain(text)} for name, text in facts.items() if text]
    blocks: list[Body] = [{"type": "FactSet", "facts": shown}]
    if not alone:
        link = f"[{_plain(call.title)}]({call.console})"
        blocks.insert(0, {**_text(link), "weight": "Bolder", "separator": True})
    return blocks


def _text(text: str) -> Body:
    return {"type": "TextBlock", "text": text, "wrap": True}


def _plain(text: str) -> str:
    """Return the text without the marks of Markdown, which a TextBlock and a fact render, and cut
    if too long."""
    cut = text[:_TEAMS_TEXT]
    while _size(_marked(cut)) > _TEAMS_TEXT:
        cut = cut[: len(cut) * 3 // 4]
    return _marked(cut) + "…" * (cut != text)


def _marked(text: str) -> str:
    return "".join(f"\\{one}" if one in "\\`*_[]<>~" else one for one in text)


def _size(part: Body | str) -> int:
    """Return how many bytes are sent."""
    return len(json.dumps(part))


def pagerduty(call: Call, routing_key: str) -> Body:
    """Return an event of version 2: a trigger, or with the same dedup_key its resolve."""
    if call.is_end:
        return {"routing_key": routing_key, "event_action": "resolve", "dedup_key": call.key}
    details = {name: value for name, value in document_of(call).items() if value}
    payload = {
        "summary": _cut(call.headline, _PAGERDUTY_SUMMARY),
        "source": call.msh,
        "severity": call.severity,
        "component": call.partner,
        "class": call.what,
        "custom_details": details,
    }
    if call.since:
        payload["timestamp"] = call.since
    return {
        "routing_key": routing_key,
        "event_action": "trigger",
        "dedup_key": call.key,
        "client": "MSH",
        "client_url": call.console,
        "links": [{"href": call.console, "text": "Open in the console"}],
        "payload": payload,
    }


def _others(calls: Sequence[Call]) -> str:
    return f"and {len(calls) - SHOWN} more" if len(calls) > SHOWN else ""


def _console_of(call: Call) -> str:
    return call.console.partition("/msh/")[0] + "/"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
