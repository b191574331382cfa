"""Advice for a partner that does not permit us to send, as its Error or answer says."""

import re

_ID = re.compile(r"[\w:/.-]*\w")


def what_to_tell(said: str, *, tpa_id: str, our_party: str, their_party: str, our_uri: str) -> str:
    """Return sentences about an answer with Reason.SENDER; they also say to whom the ids in it
    belong."""
    ours = f"our party {our_party} (MSH {our_uri})"
    tell = f"Tell the partner's operator: permit {ours} as sender in agreement {tpa_id}."
    meanings = {
        our_party: "our party",
        our_uri: "our URI",
        their_party: "the partner's own party",
        tpa_id: "the agreement",
    }
    words = dict.fromkeys(_ID.findall(said))
    named = [f"{word} in its answer is {meanings[word]}." for word in words if word in meanings]
    return " ".join([tell, *named])
