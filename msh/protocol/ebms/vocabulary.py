"""The words of OASIS ebMS 2.0, spelled once."""

from enum import IntEnum, StrEnum

SERVICE = "urn:oasis:names:tc:ebxml-msg:service"
"""The Service of signals, which no application may use (EB-035)."""
ERROR_CONTEXT = "urn:oasis:names:tc:ebxml-msg:service:errors"
"""The codeContext of an error code that has none (EB-057)."""


class Actor(StrEnum):
    """The MSH that a block of the header is for. AckRequested may name one of the two MSHs
    (EB-044)."""

    TO_PARTY_MSH = "urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"
    NEXT_MSH = "urn:oasis:names:tc:ebxml-msg:actor:nextMSH"
    NEXT = "http://schemas.xmlsoap.org/soap/actor/next"


class Kind(StrEnum):
    """The kinds of messages: the Actions of the reserved Service, and business messages."""

    BUSINESS = "business"
    ACKNOWLEDGMENT = "Acknowledgment"
    MESSAGE_ERROR = "MessageError"
    PING = "Ping"
    PONG = "Pong"
    STATUS_REQUEST = "StatusRequest"
    STATUS_RESPONSE = "StatusResponse"

    @property
    def is_signal(self) -> bool:
        """A signal is never answered by an error or an Acknowledgment (EB-062)."""
        return self is not Kind.BUSINESS

    @property
    def asks(self) -> bool:
        """Whether it is answered by a signal of its own (EB-140, EB-143)."""
        return self in (Kind.PING, Kind.STATUS_REQUEST)

    @property
    def answers(self) -> bool:
        """Whether it is about a business message, and may complete or fail it."""
        return self in (Kind.ACKNOWLEDGMENT, Kind.MESSAGE_ERROR)

    @classmethod
    def of(cls, service: str, action: str) -> "Kind":
        """A reserved Service with an Action of its own makes no signal (EB-035)."""
        return _SIGNALS.get(action, Kind.BUSINESS) if service == SERVICE else Kind.BUSINESS


_SIGNALS = {str(kind): kind for kind in Kind if kind.is_signal}


class ErrorCode(StrEnum):
    VALUE_NOT_RECOGNIZED = "ValueNotRecognized"
    NOT_SUPPORTED = "NotSupported"
    INCONSISTENT = "Inconsistent"
    OTHER_XML = "OtherXml"
    DELIVERY_FAILURE = "DeliveryFailure"
    TIME_TO_LIVE_EXPIRED = "TimeToLiveExpired"
    SECURITY_FAILURE = "SecurityFailure"
    MIME_PROBLEM = "MimeProblem"
    UNKNOWN = "Unknown"


class Severity(StrEnum):
    WARNING = "Warning"
    ERROR = "Error"


class MessageStatus(StrEnum):
    UNAUTHORIZED = "UnAuthorized"
    NOT_RECOGNIZED = "NotRecognized"
    RECEIVED = "Received"
    PROCESSED = "Processed"
    FORWARDED = "Forwarded"

    @property
    def is_known(self) -> bool:
        """Whether the message was received. Only then there is a time of receipt (EB-144)."""
        return self not in (MessageStatus.UNAUTHORIZED, MessageStatus.NOT_RECOGNIZED)


class OrderStatus(StrEnum):
    RESET = "Reset"
    CONTINUE = "Continue"


class FaultCode(StrEnum):
    """The codes of a SOAP 1.1 Fault. Who sends another one is read as Server."""

    VERSION_MISMATCH = "VersionMismatch"
    MUST_UNDERSTAND = "MustUnderstand"
    CLIENT = "Client"
    SERVER = "Server"


class Stage(IntEnum):
    """The order in which a message is checked, as far as its bytes alone decide (EB-065)."""

    MIME = 1
    SIGNATURE = 2
    HEADER = 3
    SECURITY = 4
    MANIFEST = 5
    ORDER = 6
