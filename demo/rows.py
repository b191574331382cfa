"""The proxy's own look into the database of an MSH."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

import psycopg


class InboundRows(Protocol):
    """The stored messages of the MSH that sends Acknowledgements this way."""

    async def holds(self, message_id: str) -> bool:
        """Whether the message is committed. Raises psycopg.Error if that cannot be known."""
        ...


class InboundTables:
    """`InboundRows` of an MSH, which may have several databases, each for some partners."""

    def __init__(self, database_urls: Iterable[str]) -> None:
        self._tables = [InboundTable(url) for url in database_urls]

    async def holds(self, message_id: str) -> bool:
        return any([await table.holds(message_id) for table in self._tables])

    async def aclose(self) -> None:
        for table in self._tables:
            await table.aclose()


class InboundTable:
    """`InboundRows` of one database, read over a connection that is the proxy's own."""

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        self._connection: psycopg.AsyncConnection | None = None
        self._opening = asyncio.Lock()

    async def holds(self, message_id: str) -> bool:
        connection = await self._open()
        cursor = await connection.execute(
            "SELECT 1 FROM msh_inboundmessage WHERE message_id = %s", [message_id]
        )
        return await cursor.fetchone() is not None

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _open(self) -> psycopg.AsyncConnection:
        async with self._opening:
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(
                    self.database_url, autocommit=True
                )
            return self._connection
