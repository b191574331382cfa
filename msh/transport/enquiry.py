"""A GET, for the one question that MSHs of this product ask each other (D43)."""

import asyncio
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit, urlunsplit

import aiohttp

from msh.transport.coding import UnreadableCoding, decoded
from msh.transport.failures import why
from msh.transport.http import Connector, encoding_of, one_line, proxied
from msh.transport.job import Access
from msh.transport.tls import client_context

AT_ONCE = 4  # questions
ANSWER_LIMIT = 64 * 1024  # bytes
DETAIL_LIMIT = 300  # characters


class EnquiryFailed(Exception):
    """No answer, or none that can be used. `str()` says why, on one line. `status`: of the HTTP
    response, 0 if there was none."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class NoAnswerInTime(EnquiryFailed):
    """The request was taken, or may have been, and not answered."""


def link_status_url(address: str, message_ids: Sequence[str] = ()) -> str:
    """Return the address at which the MSH with this endpoint reports its link status. Raises
    EnquiryFailed if `address` is no HTTP address."""
    parts = urlsplit(address)
    if parts.scheme.lower() not in ("http", "https"):
        raise EnquiryFailed(f"{address} cannot be queried: only MSHs reached by HTTP can")
    query = urlencode([("message_id", message_id) for message_id in message_ids])
    path = f"{parts.path.rstrip('/')}/link-status"
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def ask(urls: Sequence[str], authorization: str, deadline: float, access: Access) -> list[bytes]:
    """The bodies of the answers, in order. The last of `urls` is asked when all others have
    answered, those several at once. Waits at most `deadline` seconds for all of them together.

    Raises EnquiryFailed.
    """
    return asyncio.run(_ask_all(urls, authorization, deadline, access))


async def _ask_all(
    urls: Sequence[str], authorization: str, deadline: float, access: Access
) -> list[bytes]:
    headers = {"Accept-Encoding": "identity"}
    if authorization:
        headers["Authorization"] = authorization
    try:
        tls = client_context(access.authorities, access.certificate)
        async with (
            asyncio.timeout(deadline),
            aiohttp.ClientSession(
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=None),  # one for all of them is above
                connector=Connector(limit=AT_ONCE, ssl=tls),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # `decoded` bounds what it becomes
            ) as session,
        ):
            *first, last = urls
            proxy = access.proxy
            answers = await asyncio.gather(*(_ask(session, url, proxy) for url in first))
            return [*answers, await _ask(session, last, proxy)]
    except TimeoutError:
        raise NoAnswerInTime(f"no answer within {deadline:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise EnquiryFailed(one_line(why(error)[1], DETAIL_LIMIT)) from None


async def _ask(session: aiohttp.ClientSession, url: str, proxy: str) -> bytes:
    headers, options = proxied(url, proxy)
    async with session.get(url, headers=headers, allow_redirects=False, **options) as response:
        if response.status != 200:
            reason = response.headers.get("X-MSH-Error") or response.reason or ""
            said = one_line(f"{response.status} {reason}", DETAIL_LIMIT)
            raise EnquiryFailed(said, response.status)
        body = await _body(response)
        try:
            body, is_whole = decoded(body, encoding_of(response), ANSWER_LIMIT)
        except UnreadableCoding as encoding:
            reason = f"the answer has the Content-Encoding {encoding}: it must have none"
            raise EnquiryFailed(one_line(reason, DETAIL_LIMIT)) from None
        if not is_whole:
            raise EnquiryFailed(
                f"the compressed answer is cut short, or has more than {ANSWER_LIMIT} bytes"
            )
        return body


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > ANSWER_LIMIT:
            raise EnquiryFailed(f"the answer has more than {ANSWER_LIMIT} bytes")
    return bytes(body)
