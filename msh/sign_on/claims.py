"""Who somebody is, and which roles he has, by the claims of the identity provider."""

from collections.abc import Mapping

LONGEST_NAME = 150


def roles_of(claims: Mapping[str, object], claim: str, mapping: Mapping[str, str]) -> set[str]:
    """Return the roles that `mapping` has for the values of `claim`: a text, a list, or a path to
    one with dots, such as `realm_access.roles`."""
    found = _value(claims, claim)
    values = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return {mapping[value] for value in values if isinstance(value, str) and value in mapping}


def name_of(claims: Mapping[str, object], claim: str) -> str:
    """Return the name; empty if there is none that can be a name of a user."""
    found = _value(claims, claim)
    return found.strip() if isinstance(found, str) and len(found) <= LONGEST_NAME else ""


def _value(claims: Mapping[str, object], path: str) -> object:
    """Return the value. A claim whose own name has dots, such as a URL, comes before the path."""
    if path in claims:
        return claims[path]
    found: object = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
