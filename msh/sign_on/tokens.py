"""What an ID token of the identity provider says, once it is proven to be one for us."""

from collections.abc import Mapping
from typing import Any

import jwt

LEEWAY = 30
"""Seconds by which the provider's clock may differ from ours."""
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Of public keys only: whoever can read those of the provider must not be able to sign."""


class NotProven(Exception):
    """The text says why the token is refused, as a sentence."""


def verified(
    token: str, keys: Mapping[str, object], *, issuer: str, client: str
) -> dict[str, object]:
    """Return the claims. `keys` is the provider's key set (JWKS). Raises NotProven."""
    try:
        wanted = jwt.get_unverified_header(token).get("kid")
        known = [key for key in jwt.PyJWKSet.from_dict(dict(keys)).keys if key.key_id == wanted]
        if not known:
            raise NotProven(f"The ID token is signed with a key that is not published: {wanted}.")
        claims: dict[str, Any] = jwt.decode(
            token,
            key=known[0],
            algorithms=_ALGORITHMS,
            issuer=issuer,
            audience=client,
            leeway=LEEWAY,
            options={"require": ["exp", "iat", "iss", "aud", "sub", "nonce"]},
        )
    except jwt.PyJWTError as problem:
        raise NotProven(f"The ID token is not valid: {problem}.") from None
    if claims.get("azp", client) != client:
        raise NotProven("The ID token was issued to another application.")
    return claims
