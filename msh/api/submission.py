"""A message as an application writes it: JSON, a line of NDJSON, or multipart/form-data."""

from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from rest_framework import serializers

from msh.flows.sending.prepare import prepare_heading, prepare_message
from msh.protocol.message import MESSAGE_ID_LIMIT, Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.capacity import shortage
from msh.store.sending.agreements import find_agreements
from msh.store.sending.submissions import Heading, NewMessage
from msh.wire.mime import CONTENT_TYPE_LIMIT
from partners.models import Agreement

from .framework.problems import NotNow, Refused

_OF_AGREEMENT = "ebMS 2.0 only. Default: that of the agreement."
_PRINTED = RegexValidator(
    r"^[^\s\u0000-\u001f\u007f-\u009f]([^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f])?$"
)
_BASE64 = RegexValidator(r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")
_TYPE = RegexValidator(r"^[A-Za-z0-9_!#$&^.+-]+/[A-Za-z0-9_!#$&^.+-]+( *;[ -~]*[!-~])?$")


def printed(limit: int = 255, **options: Any) -> serializers.CharField:
    """Printable characters with single blanks inside, as `prepare_heading` takes them."""
    return serializers.CharField(max_length=limit, validators=[_PRINTED], **options)


# The forms below are for the OpenAPI document. What they say is checked by `prepared`.


class PayloadSubmission(serializers.Serializer[Any]):
    """Give either `content` or `content_base64`."""

    content = serializers.CharField(
        required=False, allow_blank=True, trim_whitespace=False, help_text="text"
    )
    content_base64 = serializers.CharField(required=False, allow_blank=True, validators=[_BASE64])
    content_type = serializers.CharField(
        default="application/xml", max_length=CONTENT_TYPE_LIMIT, validators=[_TYPE]
    )
    label = printed(required=False)  # type: ignore[assignment]
    description = printed(1000, required=False)


class Submission(serializers.Serializer[Any]):
    """A message to send. Its MessageId says which one it is."""

    tpa_id = printed(help_text="TPAId of the agreement")
    partner = serializers.SlugField(
        max_length=63,
        required=False,
        help_text="Partner name, required if several partners have an agreement with this TPAId.",
    )
    service_interface = printed()
    action = printed()
    message_id = printed(MESSAGE_ID_LIMIT, required=False)
    conversation_id = printed(required=False, help_text="Default: the MessageId.")
    ref_to_message_id = printed(required=False)
    semantics = serializers.ChoiceField(
        [semantics.value for semantics in DeliverySemantics],
        required=False,
        help_text="Default: that of the agreement.",
    )
    from_role = printed(required=False, help_text=_OF_AGREEMENT)
    to_role = printed(required=False, help_text=_OF_AGREEMENT)
    service_type = printed(
        required=False, help_text="ebMS 2.0 only. Default: that of the channel or agreement."
    )
    payloads = PayloadSubmission(many=True, required=False)


Values = Mapping[str, Any]
"""A Submission as it was read, not checked yet."""

_FIELDS: frozenset[str] = frozenset(Submission().fields)
TEXTS = _FIELDS - {"payloads"}
_REQUIRED = ("tpa_id", "service_interface", "action")
_ROLES = ("from_role", "to_role", "service_type")
_OF_HEADING = (*_REQUIRED, "partner", "semantics", *_ROLES)
_PAYLOAD_FIELDS = frozenset(PayloadSubmission().fields)
_PAYLOAD_TEXTS = _PAYLOAD_FIELDS - {"content", "content_base64"}
_SEMANTICS = frozenset({None, *(semantics.value for semantics in DeliverySemantics)})
_REPLACEMENT = "\ufffd"  # what Django puts for bytes of a form that are not UTF-8


class Agreements:
    """The agreements that messages name, looked up once a request, and their headings, checked
    once. `partners`: those with others are as if they were not there."""

    def __init__(self, partners: Collection[int] | None = None) -> None:
        self._partners = partners
        self._known: dict[str, list[Agreement]] = {}
        self._headings: dict[tuple[str | None, ...], Heading] = {}

    def look_up(self, tpa_ids: Iterable[object]) -> None:
        wanted = {one for one in tpa_ids if isinstance(one, str) and "\0" not in one}
        missing = wanted - self._known.keys()
        if missing:
            self._known |= {tpa_id: [] for tpa_id in missing}
            for agreement in find_agreements(missing):
                if self._partners is not None and agreement.partner_id not in self._partners:
                    continue
                self._known[agreement.tpa_id].append(agreement)

    def heading(self, values: Values) -> Heading:
        """That of a message, of which every value is text. Raises Refused or SubmitRefused."""
        fields = tuple(map(values.get, _OF_HEADING))
        heading = self._headings.get(fields)
        if heading is None:
            heading = self._headings[fields] = self._checked(values)
        return heading

    def _checked(self, values: Values) -> Heading:
        for name in _REQUIRED:
            if not values.get(name):
                raise Refused(name, f"{name} is required")
        semantics = values.get("semantics")
        if semantics not in _SEMANTICS:
            names = ", ".join(semantics.value for semantics in DeliverySemantics)
            raise Refused("semantics", f"semantics: must be one of {names}")
        return prepare_heading(
            self._of(values["tpa_id"], values.get("partner")),
            values["service_interface"],
            values["action"],
            semantics,
            {
                "from_role": values.get("from_role"),
                "to_role": values.get("to_role"),
                "service_type": values.get("service_type"),
            },
        )

    def meant(self, values: Values) -> frozenset[int] | None:
        """Return the ids of those that a refused message may be under: if it names no partner that
        has one, of all partners. None if it does not say."""
        tpa_id = values.get("tpa_id")
        if not isinstance(tpa_id, str):
            return None
        under = self._known.get(tpa_id, [])
        of_partner = [one for one in under if one.partner.name == values.get("partner")]
        return frozenset(agreement.pk for agreement in of_partner or under)

    def _of(self, tpa_id: str, partner: str | None) -> Agreement:
        """The one agreement that is meant, of those looked up. Raises Refused."""
        under = self._known.get(tpa_id, [])
        if not under:
            raise Refused("tpa_id", f"tpa_id: no agreement {cut(tpa_id)}. Create it")
        if partner is not None:
            under = [agreement for agreement in under if agreement.partner.name == partner]
        match under:
            case [agreement]:
                return agreement
            case []:
                text = (
                    f"partner: {cut(str(partner))} has no agreement {tpa_id}: name another partner"
                )
                raise Refused("partner", f"{text}, or create the agreement")
        raise Refused("partner", f"partner: several partners have an agreement {tpa_id}; name one")


def require_room() -> None:
    """Raises NotNow if the disk or the database is nearly full."""
    short = shortage()
    if short is not None:
        raise NotNow(short.text, short.wait)


def of_form(fields: QueryDict, files: "MultiValueDict[str, UploadedFile[bytes]]") -> Values:
    """Read a submission from multipart/form-data: a field for each value, and a file `payload` for
    each payload."""
    _refuse_unknown(files, frozenset({"payload"}), "")
    _refuse_unknown(fields, TEXTS, "")
    for name, values in fields.lists():
        if len(values) > 1:
            raise Refused(name, f"{name}: given {len(values)} times")
        if _REPLACEMENT in values[0]:
            raise Refused(name, f"{name}: not valid UTF-8")
    payloads = [
        {
            "content": file.read(),
            "content_type": file.content_type or "application/octet-stream",
            "label": file.name,
        }
        for file in files.getlist("payload")
    ]
    return {**fields.dict(), "payloads": payloads}


def prepared(values: Values, agreements: Agreements) -> NewMessage:
    """Return the message as it will be stored. Raises Refused or SubmitRefused."""
    _refuse_unknown(values, _FIELDS, "")
    for name, value in values.items():
        if not isinstance(value, str) and name != "payloads":
            raise Refused(name, f"{name}: must be a string, not {_shown(value)}")
    heading = agreements.heading(values)
    payloads = values.get("payloads", [])
    if not isinstance(payloads, list):
        raise Refused("payloads", f"payloads: must be a list, not {_shown(payloads)}")
    return prepare_message(
        heading,
        [_payload(one, n) for n, one in enumerate(payloads, start=1)],
        values.get("message_id"),
        values.get("conversation_id"),
        values.get("ref_to_message_id", ""),
    )


def _payload(values: object, position: int) -> Payload:
    where = f"payloads[{position}]"
    if not isinstance(values, dict):
        raise Refused(where, f"{where}: must be an object, not {_shown(values)}")
    _refuse_unknown(values, _PAYLOAD_FIELDS, where)
    for name, value in values.items():
        if not isinstance(value, str) and name in _PAYLOAD_TEXTS:
            raise Refused(f"{where}.{name}", f"{where}.{name}: must be a string")
    return Payload(
        _content(values, where),
        values.get("content_type", "application/xml"),
        "",  # the content id is made of the MessageId
        values.get("label", ""),
        values.get("description", ""),
    )


def _content(values: Values, where: str) -> bytes:
    match values.get("content"), values.get("content_base64"):
        case str(text), None:
            return text.encode()
        case bytes(content), None:
            return content
        case None, str(encoded):
            try:
                return b64decode(encoded, validate=True)
            except ValueError as problem:
                name = f"{where}.content_base64"
                raise Refused(name, f"{name}: not valid base64: {problem}") from None
    name = f"{where}.content"
    raise Refused(name, f"{name}: give either content (text) or content_base64")


def _refuse_unknown(given: Iterable[str], known: frozenset[str], where: str) -> None:
    if not known.issuperset(given):
        unknown = min(set(given) - known)
        name = cut(f"{where}.{unknown}" if where else unknown)
        raise Refused(name, f"{name!r} is not a field; valid ones are {', '.join(sorted(known))}")


def cut(text: str, limit: int = 100) -> str:
    """Return the beginning of a text that an answer repeats: it may be as large as a request."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def _shown(value: object) -> str:
    return "null" if value is None else type(value).__name__
