"""The REST API of an MSH, with the standard library only.

    server = Server("https://msh.example/api/v1", Secret("…"))
    with Connection(server) as msh:
        msh.get("inbound", after=0)

What the API does: docs/api.md.
"""

from msh_client.connection import Answer, ApiRefused, ApiUnavailable, Connection
from msh_client.server import Secret, Server, TokenEnv, TokenFile, api_url

__version__ = "0.9.0"

__all__ = [
    "Answer",
    "ApiRefused",
    "ApiUnavailable",
    "Connection",
    "Secret",
    "Server",
    "TokenEnv",
    "TokenFile",
    "api_url",
]
