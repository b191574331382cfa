"""Names on the wire. Everything is known by namespace, never by prefix (EB-017)."""

from functools import cache

SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
EB = "http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd"
XLINK = "http://www.w3.org/1999/xlink"
DS = "http://www.w3.org/2000/09/xmldsig#"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
SOAP_SCHEMA = "http://www.oasis-open.org/committees/ebxml-msg/schema/envelope.xsd"

VERSION = "2.0"
CONTENT_TYPE = 'text/xml; charset="UTF-8"'
SOAP_ACTION = '"ebXML"'
"""The value with its quotes, sent with everything that has an envelope (EB-150)."""

# Places as an error names them (EB-055), with the prefixes that we write.
HEADER = "/SOAP:Envelope/SOAP:Header"
BODY = "/SOAP:Envelope/SOAP:Body"
MESSAGE_HEADER = f"{HEADER}/eb:MessageHeader"


@cache
def soap(name: str) -> str:
    return f"{{{SOAP}}}{name}"


@cache
def eb(name: str) -> str:
    return f"{{{EB}}}{name}"


@cache
def ds(name: str) -> str:
    return f"{{{DS}}}{name}"
