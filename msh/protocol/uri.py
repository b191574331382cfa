"""URIs of MSHs: which ones we take, and when two are the same (D16, D56)."""

import ipaddress
import re
from functools import lru_cache

URI_LIMIT = 500  # characters

# A user name is matched so that it can be refused; an IPv6 address stands in brackets.
_HTTP = re.compile(
    r"(?P<scheme>https?)://(?P<userinfo>[^/?#@]*@)?"
    r"(?P<host>\[[0-9a-f:.]+\]|[^/?#:@\[\]]+)(?::(?P<port>[0-9]{0,5}))?(?P<rest>[/?#].*)?",
    re.IGNORECASE,
)
_MAILTO = re.compile(r"(?P<scheme>mailto):(?P<user>[^@?#/]+)@(?P<host>[^@?#/:]+)", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalised(uri: str) -> str:
    """`uri` with scheme and host in lower case, no default port, and `/` for an empty path.

    Nothing else is touched (D56). A text that is no URI of an MSH comes back as it is, equal to
    itself only.
    """
    if match := _HTTP.fullmatch(uri):
        scheme = match["scheme"].lower()
        rest = match["rest"] or ""
        return (
            f"{scheme}://{match['userinfo'] or ''}{match['host'].lower()}"
            f"{_port(scheme, match['port'])}{rest if rest.startswith('/') else '/' + rest}"
        )
    if match := _MAILTO.fullmatch(uri):
        return f"mailto:{match['user']}@{match['host'].lower()}"
    return uri


def origin(uri: str) -> str:
    """Return scheme, host and port of `uri`: who sees the credentials that are sent there. For
    mailto only the scheme, because our own mail host takes the mail. Another text is returned as it
    is."""
    if match := _HTTP.fullmatch(normalised(uri)):
        scheme = match["scheme"]
        return f"{scheme}://{match['host']}{_port(scheme, match['port'])}"
    return "mailto:" if _MAILTO.fullmatch(uri) else uri


def mail_address(uri: str) -> str:
    """The address in a mailto: URI; "" if it is none."""
    match = _MAILTO.fullmatch(uri)
    return f"{match['user']}@{match['host'].lower()}" if match else ""


@lru_cache(maxsize=256)
def host_of(uri: str) -> str:
    """The host in the URI of an MSH, without brackets and port; "" if it is none."""
    match = _HTTP.fullmatch(uri) or _MAILTO.fullmatch(uri)
    return match["host"].lower().strip("[]") if match else ""


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def is_link_local(address: str) -> bool:
    """Whether it is an IP address that only this host and its link know, in whatever form, such as
    that at which a cloud tells a machine its credentials. A host name is none."""
    try:
        ip = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        ip = inner or ip
    return ip.is_link_local


def require_usable(uri: str) -> None:
    """Refuse with ValueError, a sentence, what cannot name or address an MSH."""
    if problem := _problem(uri):
        raise ValueError(f"{uri!r} {problem}")


def _port(scheme: str, text: str | None) -> str:
    if not text or int(text) == _DEFAULT_PORTS[scheme]:
        return ""
    return f":{text}"


def _problem(uri: str) -> str:
    if len(uri) > URI_LIMIT:
        return f"is longer than {URI_LIMIT} characters."
    if not all("!" <= character <= "~" for character in uri):
        return "has white space or characters that are not ASCII: percent-encode them."
    if match := _HTTP.fullmatch(uri):
        return _http_problem(match)
    if _MAILTO.fullmatch(uri):
        return ""
    return "is not a URI: enter http://HOST/PATH, https://HOST/PATH or mailto:USER@HOST."


def _http_problem(match: re.Match[str]) -> str:
    if match["userinfo"]:
        return "contains a user name: give it as the partner's credential instead."
    if "#" in (match["rest"] or ""):
        return "has a fragment (#...), which is never sent: leave it out."
    if is_link_local(match["host"]):
        return "has a link-local address, which no other host has: enter the partner's own."
    if match["port"] and not 1 <= int(match["port"]) <= 65_535:
        return "has a port outside 1 to 65535."
    return ""
