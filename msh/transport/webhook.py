"""One POST of JSON to an address that an administrator has set: a call to operators."""

import asyncio

import aiohttp

from msh.transport.coding import UnreadableCoding, decoded
from msh.transport.failures import why
from msh.transport.http import Connector, encoding_of, one_line

Headers = tuple[tuple[str, str], ...]

DETAIL_LIMIT = 300  # characters
READ = 1024  # bytes at the start of an answer


class WebhookFailed(Exception):
    """`str()` says why, on one line."""


def post(url: str, body: bytes, authorization: str, deadline: float, more: Headers = ()) -> str:
    """Waits at most `deadline` seconds for a 2xx, and returns what it says, on one line. Raises
    WebhookFailed. `more`: headers besides."""
    return asyncio.run(_post(url, body, authorization, deadline, more))


async def _post(url: str, body: bytes, authorization: str, deadline: float, more: Headers) -> str:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **dict(more)}
    if authorization:
        headers["Authorization"] = authorization
    timeout = aiohttp.ClientTimeout(total=deadline)
    try:
        async with (
            aiohttp.ClientSession(
                connector=Connector(),
                timeout=timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            said = f"{response.status} {response.reason} {await _body(response)}"
            answer = one_line(said, DETAIL_LIMIT).strip()
            if not 200 <= response.status < 300:
                raise WebhookFailed(answer)
            return answer
    except TimeoutError:
        raise WebhookFailed(f"no answer within {deadline:g} s") from None
    except aiohttp.InvalidURL:  # its text is the address, of which a part may be a secret
        raise WebhookFailed("the webhook URL is invalid") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookFailed(one_line(why(error)[1], DETAIL_LIMIT)) from None


async def _body(response: aiohttp.ClientResponse) -> str:
    """Return the beginning of the body. The status decides, so an incomplete body counts as
    none."""
    try:
        start = await response.content.read(READ)
        text, _ = decoded(start, encoding_of(response), DETAIL_LIMIT)
    except (aiohttp.ClientError, TimeoutError, UnreadableCoding):
        return ""
    return text.decode(errors="replace")
