"""The transit engine of Vault for tests: a server that answers as the API documentation says.

Neither Vault nor OpenBao can be installed from the package index that the tests use, so this implements what
`zoned` asks: `encrypt`, `decrypt`, the rotation of a key, `derived` keys, tokens, policies by path and
namespaces, with real AES-256-GCM. Facts are from
https://developer.hashicorp.com/vault/api-docs/secret/transit (ciphertexts `vault:v<version>:<base64>`,
context required where a key is derived, `errors` in the body of a refusal) and
https://developer.hashicorp.com/vault/api-docs (X-Vault-Token, X-Vault-Namespace, 403 and 503).
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tests.support.certificates import serving


@dataclass
class Key:
    """A named key: its versions, the first is version 1."""

    derived: bool = False
    ignores_associated_data: bool = False
    versions: list[bytes] = field(default_factory=lambda: [os.urandom(32)])
    least_version: int = 1

    def cipher(self, version: int, context: bytes) -> AESGCM:
        key = self.versions[version - 1]
        return AESGCM(HKDF(SHA256(), 32, None, context).derive(key) if self.derived else key)


class Refused(Exception):
    """A status and what `errors` say."""


class Transit:
    """A running engine at the mount `transit`.

    Attributes:
        keys: name -> key.
        tokens: token -> paths that it may update.
        namespace: that requests must name.
        is_sealed: it answers 503.
        calls: operation -> how often it was asked.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.keys: dict[str, Key] = {}
        self.tokens: dict[str, set[str]] = {}
        self.namespace: str | None = None
        self.is_sealed = False
        self.calls: Counter[str] = Counter()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                status, document = engine.answer(
                    self.path,
                    {name.lower(): value for name, value in self.headers.items()},
                    self.rfile.read(length),
                )
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            self._server.socket = serving(certificate).wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        origin = "http://127.0.0.1" if certificate is None else "https://localhost"
        self.url = f"{origin}:{self._server.server_port}"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def key(self, name: str, *, token: str, **members: Any) -> Key:
        """A new key, and a token that may encrypt and decrypt with it."""
        self.keys[name] = Key(**members)
        self.tokens.setdefault(token, set()).update({f"transit/encrypt/{name}", f"transit/decrypt/{name}"})
        return self.keys[name]

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and JSON of an answer."""
        if self.is_sealed:
            return 503, {"errors": ["Vault is sealed"]}
        path = path.removeprefix("/v1/")
        if path not in self.tokens.get(headers.get("x-vault-token", ""), set()):
            return 403, {"errors": ["permission denied"]}
        if headers.get("x-vault-namespace") != self.namespace:
            return 404, {"errors": ["no handler for route"]}
        _, operation, name = path.split("/")
        self.calls[operation] += 1
        try:
            return 200, {"data": getattr(self, f"_{operation}")(self._named(name), json.loads(body))}
        except Refused as refused:
            return 400, {"errors": [str(refused)]}

    def _named(self, name: str) -> Key:
        if name not in self.keys:
            raise Refused("encryption key not found")
        return self.keys[name]

    def _encrypt(self, key: Key, body: dict[str, str]) -> dict[str, str]:
        context, associated = self._bound(key, body)
        version, nonce = len(key.versions), os.urandom(12)
        plain = base64.b64decode(body["plaintext"], validate=True)
        sealed = nonce + key.cipher(version, context).encrypt(nonce, plain, associated)
        return {"ciphertext": f"vault:v{version}:{base64.b64encode(sealed).decode()}"}

    def _decrypt(self, key: Key, body: dict[str, str]) -> dict[str, str]:
        context, associated = self._bound(key, body)
        prefix, number, text = body["ciphertext"].split(":")
        version = int(number[1:])
        if prefix != "vault" or version > len(key.versions):
            raise Refused("invalid ciphertext: version is too new")
        if version < key.least_version:
            raise Refused("ciphertext or signature version is disallowed by policy (too old)")
        sealed = base64.b64decode(text, validate=True)
        try:
            plain = key.cipher(version, context).decrypt(sealed[:12], sealed[12:], associated)
        except InvalidTag:
            raise Refused("cipher: message authentication failed") from None
        return {"plaintext": base64.b64encode(plain).decode()}

    @staticmethod
    def _bound(key: Key, body: dict[str, str]) -> tuple[bytes, bytes | None]:
        context = base64.b64decode(body.get("context", ""))
        if key.derived and not context:
            raise Refused("missing 'context' for key derivation; the key was created using a derived key")
        known = not key.ignores_associated_data
        return context, base64.b64decode(
            body["associated_data"]
        ) if known and "associated_data" in body else None


@contextmanager
def running_transit(certificate: Path | None = None) -> Iterator[Transit]:
    """An engine of its own."""
    engine = Transit(certificate)
    try:
        yield engine
    finally:
        engine.close()
