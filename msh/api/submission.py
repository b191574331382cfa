"""A message as an application writes it: JSON, a line of NDJSON, or multipart/form-data."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from rest_framework import serializers

from msh.flows import submit as flow
from msh.flows.advance import NewMessage
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from partners.models import Agreement

from .problems import Refused

TEXTS = (
    *("tpa_id", "partner", "service_interface", "action", "message_id"),
    *("conversation_id", "ref_to_message_id", "semantics"),
)


class PayloadSubmission(serializers.Serializer[Any]):
    """Give either `content` or `content_base64`."""

    content = serializers.CharField(required=False, help_text="text")
    content_base64 = serializers.CharField(required=False)
    content_type = serializers.CharField(default="application/xml")
    label = serializers.CharField(required=False)
    description = serializers.CharField(required=False)


class SubmissionDocument(serializers.Serializer[Any]):
    """A message to send. It is identified by its MessageId."""

    tpa_id = serializers.CharField(help_text="TPAId of the agreement")
    partner = serializers.CharField(
        required=False, help_text="Its name, where several have an agreement of this TPAId."
    )
    service_interface = serializers.CharField()
    action = serializers.CharField()
    message_id = serializers.CharField(required=False)
    conversation_id = serializers.CharField(required=False, help_text="Else the MessageId.")
    ref_to_message_id = serializers.CharField(required=False)
    semantics = serializers.ChoiceField(
        [semantics.value for semantics in DeliverySemantics],
        required=False,
        help_text="Else the agreement's.",
    )
    payloads = PayloadSubmission(many=True, required=False)


_REPLACEMENT = "\ufffd"  # what Django puts for bytes of a form that are not UTF-8
_REQUIRED = ("tpa_id", "service_interface", "action")
_PAYLOAD_TEXTS = ("content", "content_base64", "content_type", "label", "description")
_SEMANTICS = [semantics.value for semantics in DeliverySemantics]


@dataclass(frozen=True, slots=True)
class Submission:
    """What is to be sent, its agreement still a name. Empty: not given."""

    tpa_id: str
    service_interface: str
    action: str
    payloads: tuple[Payload, ...]
    partner: str = ""
    message_id: str = ""
    conversation_id: str = ""
    ref_to_message_id: str = ""
    semantics: str = ""

    def named(self, message_id: str) -> "Submission":
        """This one with a MessageId, if it has none."""
        return self if self.message_id else replace(self, message_id=message_id)

    def prepared(self, agreements: "Agreements") -> NewMessage:
        """As it will be kept. Raises Refused or SubmitRefused."""
        return flow.prepare(agreements.of(self), *self._what, **self._options)

    def submit(self, agreements: "Agreements") -> Any:
        """Queue it; its row. Raises Refused or SubmitRefused."""
        return flow.submit(agreements.of(self), *self._what, **self._options)

    @property
    def _what(self) -> tuple[str, str, tuple[Payload, ...]]:
        return self.service_interface, self.action, self.payloads

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "message_id": self.message_id or None,
            "conversation_id": self.conversation_id or None,
            "ref_to_message_id": self.ref_to_message_id,
            "semantics": DeliverySemantics(self.semantics) if self.semantics else None,
        }


class Agreements:
    """Those that submissions name, looked up once a request."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], list[Agreement]] = {}

    def of(self, submission: Submission) -> Agreement:
        """The one agreement that is meant. Raises Refused."""
        key = (submission.tpa_id, submission.partner)
        if key not in self._known:
            found = Agreement.objects.filter(tpa_id=submission.tpa_id).select_related("partner")
            if submission.partner:
                found = found.filter(partner__name=submission.partner)
            self._known[key] = list(found[:2])
        match self._known[key]:
            case [agreement]:
                return agreement
            case []:
                whose = f" with partner {submission.partner}" if submission.partner else ""
                raise Refused(
                    "tpa_id", f"tpa_id: there is no agreement {submission.tpa_id}{whose}, add it"
                )
        raise Refused(
            "partner", f"partner: several have an agreement {submission.tpa_id}, say which"
        )


def of_json(text: bytes) -> Submission:
    """From a JSON object. Raises Refused."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Refused("", f"this is not JSON in UTF-8: {problem}") from None
    if not isinstance(document, dict):
        raise Refused("", "a message is a JSON object")
    _refuse_unknown(document, {*TEXTS, "payloads"}, "")
    payloads = document.get("payloads") or []
    if not isinstance(payloads, list):
        raise Refused("payloads", "payloads: it is a list of objects")
    return _submission(document, (_payload(one, n) for n, one in enumerate(payloads, start=1)))


def of_form(fields: QueryDict, files: MultiValueDict[str, UploadedFile]) -> Submission:
    """From multipart/form-data: a field each, and a file `payload` for each payload."""
    _refuse_unknown({*fields, *files}, {*TEXTS, "payload"}, "")
    if "payload" in fields:
        raise Refused("payload", "payload: send it as a file, with a filename")
    for name, values in fields.lists():
        if len(values) > 1:
            raise Refused(name, f"{name}: it is given {len(values)} times")
        if _REPLACEMENT in values[0]:
            raise Refused(name, f"{name}: it is not UTF-8")
    return _submission(fields, map(_uploaded, files.getlist("payload")))


def _uploaded(file: UploadedFile) -> Payload:
    content_type = file.content_type or "application/octet-stream"
    return Payload(file.read(), content_type, label=file.name or "")


def _submission(values: Mapping[str, Any], payloads: Iterable[Payload]) -> Submission:
    texts = {name: _text(values, name) for name in TEXTS}
    for name in _REQUIRED:
        if not texts[name]:
            raise Refused(name, f"{name} is missing: give it a value")
    if texts["semantics"] not in ("", *_SEMANTICS):
        raise Refused("semantics", f"semantics: it is one of {', '.join(_SEMANTICS)}")
    return Submission(payloads=tuple(payloads), **texts)


def _text(values: Mapping[str, Any], name: str, where: str = "") -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(f"{where}{name}", f"{where}{name}: it is text")
    if "\0" in value or not _is_unicode(value):
        raise Refused(f"{where}{name}", f"{where}{name}: it holds a character that is none")
    return value


def _is_unicode(value: str) -> bool:
    """False for the half of a surrogate pair that JSON lets through."""
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)


def _payload(document: Any, position: int) -> Payload:
    where = f"payloads[{position}]."
    if not isinstance(document, dict):
        raise Refused(where[:-1], f"{where[:-1]}: it is an object")
    _refuse_unknown(document, set(_PAYLOAD_TEXTS), where)
    if ("content" in document) == ("content_base64" in document):
        raise Refused(
            f"{where}content", f"{where}content: give either content (text) or content_base64"
        )
    return Payload(
        _content(document, where),
        _text(document, "content_type", where) or "application/xml",
        label=_text(document, "label", where),
        description=_text(document, "description", where),
    )


def _content(document: Mapping[str, Any], where: str) -> bytes:
    if "content" in document:
        content = document["content"]
        if not isinstance(content, str) or not _is_unicode(content):
            raise Refused(f"{where}content", f"{where}content: it is text")
        return content.encode()
    try:
        return b64decode(document["content_base64"], validate=True)
    except (TypeError, ValueError, binascii.Error):
        name = f"{where}content_base64"
        raise Refused(name, f"{name}: this is not base64") from None


def _refuse_unknown(document: Iterable[Any], known: set[str], where: str) -> None:
    unknown = set(document) - known
    if unknown:
        name = f"{where}{min(unknown)}"
        raise Refused(name, f"{name[:100]!r} is no field: there are {', '.join(sorted(known))}")
