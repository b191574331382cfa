"""The REST API of an MSH, with the standard library only.

    server = Server("https://msh.example/api/v1", Secret("…"))
    with Client(server) as msh:
        msh.submit({…})

docs/client.md; what the API does: docs/api.md.
"""

from msh_client.client import Client, Page, Submitted, content_of
from msh_client.connection import Answer, ApiRefused, ApiUnavailable, Connection
from msh_client.server import Secret, Server, TokenEnv, TokenFile, api_url

__version__ = "0.9.0"

__all__ = [
    "Answer",
    "ApiRefused",
    "ApiUnavailable",
    "Client",
    "Connection",
    "Page",
    "Secret",
    "Server",
    "Submitted",
    "TokenEnv",
    "TokenFile",
    "api_url",
    "content_of",
]
