"""Settings of an agreement that suit a product or a network: the `preset` of a setup document.

A preset gives only what this version supports; docs/ebms2.md says what each of them is for.
"""

from collections.abc import Mapping
from typing import Any

_FIVE_DAYS = 5 * 86_400


def _parties(kind: str) -> dict[str, str]:
    return {"our_party_type": kind, "their_party_type": kind}


_DIGIKOPPELING: Mapping[str, Any] = {
    **_parties("urn:osb:oin"),
    "persist_duration": _FIVE_DAYS,
    "time_to_live": _FIVE_DAYS,
}
_BEST_EFFORT = {"ack": "never", "eliminates": "never", "semantics": "BestEffort"}
_RELIABLE = {"ack": "always", "eliminates": "always"}
_ENCRYPTED = {"signed": True, "encrypted": True}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "digikoppeling": _DIGIKOPPELING,
    "digikoppeling-be": {**_parties("urn:osb:oin"), **_BEST_EFFORT},
    "digikoppeling-be-signed": {**_parties("urn:osb:oin"), **_BEST_EFFORT, "signed": True},
    "digikoppeling-be-encrypted": {**_parties("urn:osb:oin"), **_BEST_EFFORT, **_ENCRYPTED},
    "digikoppeling-rm": {**_DIGIKOPPELING, **_RELIABLE},
    "digikoppeling-rm-signed": {
        **_DIGIKOPPELING,
        **_RELIABLE,
        "signed": True,
        "ack_signed": True,
    },
    "digikoppeling-rm-encrypted": {
        **_DIGIKOPPELING,
        **_RELIABLE,
        **_ENCRYPTED,
        "ack_signed": True,
    },
    "nhs-spine": {
        **_parties("urn:nhs:names:partyType:ocs+serviceInstance"),
        "soap_action": "{service}/{action}",
        "ack_actor": "nextMSH",
        "lenient": ["EB-030"],
        "retryable_codes": ["200", "206", "208"],
    },
    "nav-no": {
        **_parties("HER"),
        "service_type": "string",
        "signed": True,
        "allow_sha1": True,
    },
    "hermes-2": {"lenient": ["EB-043"], "allow_sha1": True},
    "ebms-core": {
        "ack": "always",
        "eliminates": "always",
        "time_to_live": 1,  # it becomes as long as the retries take (EB-083)
    },
    "webmethods": {"retries": 4, "retry_interval": 30},
}
"""The presets by name; all are of dialect ebms2."""
