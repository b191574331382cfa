"""What to tell a partner that does not permit us to send, in an Error or in its answer."""

import re

_REFUSED = re.compile(
    r"SecurityFailure|\bsender\b.*\b(?:not (?:permitted|registered|authori[sz]ed|known|allowed)"
    r"|unknown|unauthori[sz]ed)\b",
    re.IGNORECASE | re.DOTALL,
)
_ID = re.compile(r"[\w:/.-]*\w")


def sender_refused(said: str) -> bool:
    return _REFUSED.search(said) is not None


def what_to_tell(said: str, *, tpa_id: str, our_party: str, their_party: str, our_uri: str) -> str:
    """Of an answer that `sender_refused` is true of: sentences, also whose the ids in it are."""
    ours = f"our party {our_party} (MSH {our_uri})"
    tell = (
        "The partner does not permit us to send: the message itself may be correct. Tell its"
        f" operator: permit {ours} as sender in agreement {tpa_id}."
    )
    meanings = {
        our_party: "our party",
        our_uri: "our URI",
        their_party: "the partner's own party",
        tpa_id: "the agreement",
    }
    words = dict.fromkeys(_ID.findall(said))
    named = [f"{word} in its answer is {meanings[word]}." for word in words if word in meanings]
    return " ".join([tell, *named])
