"""Message to bytes and back. What flows call; one dialect, ebXML message header 0.21C."""

from .bounce import DeliveryReport, delivery_report, is_automatic
from .display import as_text, indented
from .mail import in_lines, package_of
from .mime import (
    DELIMITER_LIMIT,
    PART_HEADER_LIMIT,
    dress_of_part,
    new_boundary,
    part_content,
    stored_document,
)
from .mixed import NATIVE_TYPE, ascii_type, compose_mixed, percent_encoded
from .package import HEADER_LIMIT, check_names, compose_parts
from .trp.envelope import (
    compose_head,
    compose_routed_head,
    compose_signal,
    content_type,
    parse,
    parse_readable,
)
from .trp.fields import locate

__all__ = [
    "DELIMITER_LIMIT",
    "HEADER_LIMIT",
    "NATIVE_TYPE",
    "PART_HEADER_LIMIT",
    "DeliveryReport",
    "as_text",
    "ascii_type",
    "check_names",
    "compose_head",
    "compose_mixed",
    "compose_parts",
    "compose_routed_head",
    "compose_signal",
    "content_type",
    "delivery_report",
    "dress_of_part",
    "in_lines",
    "indented",
    "is_automatic",
    "locate",
    "new_boundary",
    "package_of",
    "parse",
    "parse_readable",
    "part_content",
    "percent_encoded",
    "stored_document",
]
