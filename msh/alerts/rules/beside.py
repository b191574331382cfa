"""Which of several incidents about one message is called about."""

from collections.abc import Collection

from msh.protocol.kinds import IncidentKind
from msh.protocol.severity import severity_of


def is_said_beside(kind: str, beside: Collection[str]) -> bool:
    """Whether a call about one of the new incidents `beside`, which are about the same message,
    says all that matters of this one: what is wrong with a message, and the conversation that it
    stops, have one cause. The worse of the two is called about."""
    stopped, alone = IncidentKind.CONVERSATION_STOPPED, IncidentKind.WENT_AHEAD_ALONE
    if kind == alone:
        return False
    if kind == stopped:
        return any(severity_of(other).reaches(severity_of(kind)) for other in beside)
    return stopped in beside and not severity_of(kind).reaches(severity_of(stopped))
