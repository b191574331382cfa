"""Settings of an agreement that suit a product or a network: the `preset` of a setup document.

A preset gives only what this version supports; docs/ebms2.md says what each of them is for.
"""

from collections.abc import Mapping
from typing import Any

_FIVE_DAYS = 5 * 86_400


def _parties(kind: str) -> dict[str, str]:
    return {"our_party_type": kind, "their_party_type": kind}


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "digikoppeling": {
        **_parties("urn:osb:oin"),
        "persist_duration": _FIVE_DAYS,
        "time_to_live": _FIVE_DAYS,
    },
    "nhs-spine": {
        **_parties("urn:nhs:names:partyType:ocs+serviceInstance"),
        "soap_action": "{service}/{action}",
        "lenient": ["EB-030"],
        "retryable_codes": ["200", "206", "208"],
    },
    "nav-no": {**_parties("HER"), "service_type": "string"},
    "hermes-2": {"lenient": ["EB-043"]},
    "ebms-core": {
        "ack": "always",
        "eliminates": "always",
        "time_to_live": 1,  # it becomes as long as the retries take (EB-083)
    },
    "webmethods": {"retries": 4, "retry_interval": 30},
}
"""The presets by name; all are of dialect ebms2."""
