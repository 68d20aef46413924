"""AWS KMS for tests: moto's server over real HTTP, asked by boto3 as the service asks AWS.

moto encrypts and binds to the encryption context, and answers a decryption under another key, but uses keys
whatever their state is. So each request passes a small layer first that answers as KMS documents it: for
disabled keys and those that are going to be deleted
(https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html), for keys that the caller has no
permission for, and while the service is out of order.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Thread
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.config import Config
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from runtime.adapters.keys import aws_kms

REGION, ACCOUNT = "eu-west-1", "123456789012"
ALL_KEYS = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/*"


# What AWS's services are like is read once for a process: that takes longer than a request.
botocore.session.create_loader = cache(botocore.session.create_loader)


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        pass


class Kms:
    """A running KMS.

    Attributes:
        url: of its endpoint.
        denied: ARNs of keys that the caller may not use.
        is_down: it answers every request with a failure of its own.
        calls: operation -> how often it was asked.
    """

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.is_down = False
        self.calls: Counter[str] = Counter()
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet
        )
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._client = boto3.session.Session().client(
            "kms",
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="administrator",
            aws_secret_access_key="unused",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def let_it_be_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have this process find it, and wait for it as long as a busy machine takes."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        for name in ("_CONNECT_SECONDS", "_READ_SECONDS", "DEADLINE_SECONDS", "LOADING_SECONDS"):
            monkeypatch.setattr(aws_kms, name, 60.0)

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which AWS programs find it."""
        return {
            "AWS_ENDPOINT_URL_KMS": self.url,
            "AWS_ACCESS_KEY_ID": "service",
            "AWS_SECRET_ACCESS_KEY": "unused",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def key(self) -> str:
        """The ARN of a new key."""
        return str(self._client.create_key()["KeyMetadata"]["Arn"])

    def disable(self, arn: str) -> None:
        """Disable a key."""
        self._client.disable_key(KeyId=arn.rpartition("/")[2])

    def enable(self, arn: str) -> None:
        """Enable a key again."""
        self._client.enable_key(KeyId=arn.rpartition("/")[2])

    def schedule_deletion(self, arn: str) -> None:
        """Let a key go in a week."""
        self._client.schedule_key_deletion(KeyId=arn.rpartition("/")[2], PendingWindowInDays=7)

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        operation = str(environ.get("HTTP_X_AMZ_TARGET", "")).rpartition(".")[2]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if operation in ("Encrypt", "Decrypt"):
            self.calls[operation] += 1
            if (refusal := self._refusal(json.loads(body)["KeyId"])) is not None:
                status, code = refusal
                start(status, [("Content-Type", "application/x-amz-json-1.1")])
                return [json.dumps({"__type": code, "message": "arn:aws:iam::1:role/secret-role"}).encode()]
        return self._moto(environ, start)  # type: ignore[no-any-return]

    def _refusal(self, arn: str) -> tuple[str, str] | None:
        if self.is_down:
            return "500 Internal Server Error", "KMSInternalException"
        if arn in self.denied:
            return "400 Bad Request", "AccessDeniedException"
        state = self._state(arn)
        if state == "Disabled":
            return "400 Bad Request", "DisabledException"
        return ("400 Bad Request", "KMSInvalidStateException") if state == "PendingDeletion" else None

    def _state(self, arn: str) -> str:
        try:
            return str(self._client.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"])
        except self._client.exceptions.NotFoundException:
            return ""


@contextmanager
def running_kms() -> Iterator[Kms]:
    """A KMS of its own."""
    kms = Kms()
    try:
        yield kms
    finally:
        kms.close()
