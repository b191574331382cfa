"""The networks that requests of a partner come from."""

import ipaddress
from functools import lru_cache

from django.core.exceptions import ValidationError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=1024)
def networks_of(text: str) -> tuple[Network, ...]:
    """The networks in `text`, separated by white space or commas. ValueError names a wrong one."""
    return tuple(ipaddress.ip_network(part) for part in text.replace(",", " ").split())


def check_networks(text: str) -> None:
    try:
        networks_of(text)
    except ValueError as problem:
        raise ValidationError(
            f"{problem}. Enter networks such as 192.0.2.0/24 or 2001:db8::/32.", code="network"
        ) from None


def is_in(address: str, networks: tuple[Network, ...]) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # a UNIX socket has none
        return False
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return any(ip in network for network in networks)
