"""One GET, for the one question that MSHs of this product ask each other (D43)."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit, urlunsplit

import aiohttp

from msh.transport.http import one_line

ANSWER_LIMIT = 64 * 1024  # bytes
DETAIL_LIMIT = 300


class EnquiryFailed(Exception):
    """No answer, or none that can be used. `str()` says why, on one line."""


def link_status_url(address: str, message_ids: Sequence[str] = ()) -> str:
    """Where the MSH whose endpoint is at `address` answers. Refuses with EnquiryFailed what is no
    HTTP address."""
    parts = urlsplit(address)
    if parts.scheme.lower() not in ("http", "https"):
        raise EnquiryFailed(f"{address} cannot be asked: only MSHs that are reached by HTTP can")
    query = urlencode([("message_id", message_id) for message_id in message_ids])
    path = f"{parts.path.rstrip('/')}/link-status"
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def ask(url: str, authorization: str, deadline: float) -> bytes:
    """The answer's body. Waits at most `deadline` seconds. Raises EnquiryFailed."""
    return asyncio.run(_ask(url, authorization, deadline))


async def _ask(url: str, authorization: str, deadline: float) -> bytes:
    headers = {"Authorization": authorization} if authorization else {}
    timeout = aiohttp.ClientTimeout(total=deadline)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.get(url, headers=headers, allow_redirects=False) as response,
        ):
            if response.status != 200:
                reason = response.headers.get("X-MSH-Error") or response.reason or ""
                raise EnquiryFailed(one_line(f"{response.status} {reason}", DETAIL_LIMIT))
            return await _body(response)
    except TimeoutError:
        raise EnquiryFailed(f"no answer within {deadline:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise EnquiryFailed(one_line(f"{type(error).__name__}: {error}", DETAIL_LIMIT)) from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > ANSWER_LIMIT:
            raise EnquiryFailed(f"the answer has more than {ANSWER_LIMIT} bytes")
    return bytes(body)
