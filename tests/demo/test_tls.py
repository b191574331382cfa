"""TLS of a run: who comes in at the front, and whose certificate it names."""

import asyncio
import ssl
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from demo.http11 import HOST, read_request, read_start
from demo.pairs import make_pairs, make_tokens, setup_of
from demo.proxy import Front
from demo.tls import HEADER, Trust


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    made = Trust(tmp_path / "tls", ("a", "b"))
    made.write()
    return made


def client_of(trust: Trust, name: str = "") -> ssl.SSLContext:
    tls = ssl.create_default_context(cadata=trust.authority)
    if name:
        given = trust.environment(name)
        tls.load_cert_chain(given["MSH_CLIENT_CERTIFICATE"], given["MSH_CLIENT_KEY"])
    return tls


async def passed_on(trust: Trust, tls: ssl.SSLContext, path: str, header: str) -> dict[str, str]:
    """The headers of a request as the front passes it on."""
    front = Front(trust.front(), HEADER, "/ebxml/pair-1/")
    found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await read_request(await read_start(reader), reader)
        found.set_result(dict(front.certified(request, writer).headers))
        writer.close()

    async with await asyncio.start_server(serve, HOST, 0, ssl=front.tls) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
        writer.write(f"POST {path} HTTP/1.1\r\n{header}: forged\r\n\r\n".encode())
        await reader.read()
        writer.close()
        return await asyncio.wait_for(found, 5)


def test_front_names_the_certificate_and_nothing_that_a_client_writes(trust: Trust) -> None:
    tls = client_of(trust, "a")
    der = ssl.PEM_cert_to_DER_cert(trust.certificate_of("a"))
    named = asyncio.run(passed_on(trust, tls, "/ebxml/pair-1/", HEADER.lower()))
    assert named == {HEADER: sha256(der).hexdigest()}
    assert asyncio.run(passed_on(trust, tls, "/ebxml/pair-2/", HEADER)) == {}


def test_front_takes_nobody_without_a_certificate_of_the_run(trust: Trust, tmp_path: Path) -> None:
    stranger = Trust(tmp_path / "other", ("a",))
    stranger.write()
    forged = client_of(trust)
    given = stranger.environment("a")
    forged.load_cert_chain(given["MSH_CLIENT_CERTIFICATE"], given["MSH_CLIENT_KEY"])
    for tls in (client_of(trust), forged):
        with pytest.raises((ssl.SSLError, ConnectionError, TimeoutError)):
            asyncio.run(passed_on(trust, tls, "/ebxml/pair-1/", HEADER))


def test_partner_of_the_first_pair_is_known_by_its_certificate(trust: Trust) -> None:
    pairs = make_pairs(2)
    document = setup_of("a", pairs, {"b": 1}, make_tokens(pairs), trust=trust)
    first, second = document["partners"]
    shown: Any = {"token_in", "token_out", "certificate_in", "ca_certificates"}
    assert first.keys() & shown == {"certificate_in", "ca_certificates"}
    assert first["certificate_in"] == trust.certificate_of("b")
    assert second.keys() & shown == {"token_in", "token_out"}
    assert {one["address"].partition(":")[0] for one in (first, second)} == {"https"}
