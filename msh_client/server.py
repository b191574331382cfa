"""Where an MSH is and who asks: its address, the token, certificates, patience."""

import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

API = "/api/v1"


class Secret:
    """A token or a key that no repr, traceback or log line shows."""

    __slots__ = ("_read", "_text")

    def __init__(self, text: str, read: Callable[[], str] | None = None) -> None:
        """`read`: asks for it again where it came from, and raises ValueError if it is not there.
        It is pickled with the secret."""
        self._text = text
        self._read = read

    def __repr__(self) -> str:
        return "Secret(***)"

    def reveal(self) -> str:
        return self._text

    def renew(self) -> bool:
        """Read it again, and return whether it is another one now. One that cannot be read stays
        what it is: a task may run where the file is not."""
        try:
            text = self._read() if self._read else self._text
        except ValueError:
            return False
        is_new, self._text = text != self._text, text
        return is_new


@dataclass(frozen=True)
class TokenFile:
    """The token is the first line of a file."""

    path: str

    def read(self) -> str:
        """Raises ValueError. The text does not show the path: it could be a token that was given
        to the wrong option."""
        try:
            text = Path(self.path).read_text().partition("\n")[0].strip()
        except (OSError, ValueError) as error:  # a file that is no text, a name that is none
            reason = getattr(error, "strerror", None) or "not text"
            raise ValueError(f"the file that it names cannot be read: {reason}.") from None
        return checked_token(text, "the first line of the file that it names")


@dataclass(frozen=True)
class TokenEnv:
    """The token is an environment variable."""

    name: str

    def read(self) -> str:
        """Raises ValueError."""
        text = os.environ.get(self.name, "")
        return checked_token(text, "the environment variable that it names")


def checked_token(text: str, origin: str) -> str:
    """Raises ValueError if it cannot be one."""
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise ValueError(f"{origin} holds no token. `manage.py token` makes one.")
    return text


@dataclass(frozen=True)
class Server:
    """Where the API is and how patient to be. Times in seconds."""

    url: str
    """`http(s)://HOST[:PORT][/PATH]/api/v1`"""
    token: Secret
    request_timeout: float = 120.0
    """Without a byte of an answer for so long, a connection counts as lost."""
    retry_timeout: float = 600.0
    """Overload and lost connections of one request are waited out for so long after its beginning;
    a try that begins within it may end up to `request_timeout` later."""
    ca_certificates: str = ""
    """PEM. Empty: those of the system."""
    client_certificate: Secret | None = None
    """PEM: the certificate, its chain and its key."""
    user_agent: str = "msh-client"


def api_url(text: str) -> str:
    """Return the address of the API of the MSH at this address. Raises ValueError."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no address: it is https://HOST:PORT or http://HOST:PORT.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("holds more than an address: a token has its own option.")
    path = parts.path.rstrip("/").removesuffix(API)
    return f"{parts.scheme}://{parts.netloc}{path}{API}"


def tls_context(server: Server) -> ssl.SSLContext:
    """Raises ssl.SSLError (an OSError) or ValueError if a certificate or key cannot be used."""
    context = ssl.create_default_context(cadata=server.ca_certificates or None)
    if server.client_certificate is not None:
        # OpenSSL reads keys from files only: this one is readable for its owner, and for a moment.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(server.client_certificate.reveal().encode())
            file.flush()
            context.load_cert_chain(file.name, password=_no_password)
    return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal."""
    raise ValueError("the key is encrypted: give one that is not")
