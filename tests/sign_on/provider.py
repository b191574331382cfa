"""A small OpenID Connect provider on loopback. What it signs and answers can be falsified."""

import json
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

CLIENT, SECRET = "msh", "the secret of the client"
Claims = dict[str, Any]


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65537, key_size=2048)


class Provider:
    """`user`: the claims of who logs in. `falsify` changes the claims of a token before it is
    signed, with `signs`; published is the key `published`."""

    def __init__(self) -> None:
        self.user: Claims = {}
        self.falsify: Callable[[Claims], Claims] = lambda claims: claims
        self.published = self.signs = new_key()
        self.algorithm = "RS256"
        self.asked: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def configuration(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def keys(self) -> dict[str, Any]:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(self.published.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": "1", "use": "sig", "alg": "RS256"}]}

    def authorise(self, query: dict[str, str]) -> str:
        """Where the browser goes next. The code is the request itself."""
        self.asked.append(query)
        back = {"code": str(len(self.asked) - 1), "state": query["state"]}
        return f"{query['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str]) -> dict[str, Any]:
        asked = self.asked[int(form["code"])]
        now = int(time.time())
        claims = self.falsify(
            {
                "iss": self.issuer,
                "aud": asked["client_id"],
                "iat": now,
                "exp": now + 300,
                "nonce": asked.get("nonce"),
                **self.user,
            }
        )
        signed = jwt.encode(claims, self.signs, self.algorithm, headers={"kid": "1"})
        return {"access_token": "at", "token_type": "Bearer", "id_token": signed}


def _handler_of(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            if address.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorise(query))
                self.end_headers()
            elif address.path == "/keys":
                self._answer(provider.keys())
            else:
                self._answer(provider.configuration())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(provider.token({k: v[0] for k, v in parse_qs(body).items()}))

        def _answer(self, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    return Handler
