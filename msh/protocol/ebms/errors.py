"""Errors for input that is no message of OASIS ebMS 2.0, or cannot be used as one."""

from msh.protocol.errors import ProtocolError, Unreadable
from msh.protocol.reason import Refusal

from .message import Defect, PartialHeader
from .vocabulary import FaultCode


class NotAMessage(Unreadable):
    """No ebXML message can be read: the answer is a SOAP Fault of this code (EB-016, EB-066).

    `status` is 500, or 415 where the media type says that it is something else.
    """

    def __init__(
        self,
        reason: str,
        refusal: Refusal = Refusal.DOCUMENT,
        *,
        code: FaultCode = FaultCode.CLIENT,
    ) -> None:
        super().__init__(reason, refusal)
        self.status = 415 if refusal is Refusal.MEDIA_TYPE else 500
        self.code = code


class Unusable(ProtocolError):
    """A MessageHeader that lacks a required element, or has one that cannot be read.

    `partial` says whose it is, as far as that can be read: with it the defects can be answered by
    a MessageError, or a signal be passed over (EB-062).
    """

    def __init__(self, defects: tuple[Defect, ...], partial: PartialHeader) -> None:
        self.defects = tuple(sorted(defects, key=lambda one: one.stage))  # EB-065
        super().__init__(self.defects[0].error.description)
        self.partial = partial
