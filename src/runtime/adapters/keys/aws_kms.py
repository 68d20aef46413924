"""Key-encryption keys of AWS KMS: a symmetric key that never leaves it wraps and unwraps data keys.

Region and account come from the key's ARN, the endpoint and the credentials from where every AWS program
takes them (`AWS_ENDPOINT_URL_KMS`, profile, web identity, instance role). boto3 is blocking, so each call
runs in a thread of its own pool: what hangs there keeps nothing else of the service waiting.
Spec: https://docs.aws.amazon.com/kms/latest/APIReference/ (Encrypt, Decrypt).
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any

from runtime.adapters.keys.sealing import SealBroken
from runtime.adapters.keys.wrapping import (
    Binding,
    KeyRefused,
    KeyUnreachable,
    WrappedKey,
)
from runtime.adapters.timeouts import lag_tolerant_timeout
from runtime.domain.kinds.zone import KMS_KEY_ARN
from runtime.metrics import KEY_ENCRYPTION_SECONDS

PREFIX = "aws-kms:"
DEADLINE_SECONDS = 6.0
LOADING_SECONDS = 20.0  # of boto3 and its credentials, once
_CONNECT_SECONDS, _READ_SECONDS, _ATTEMPTS = 1.5, 2.5, 2
_THREADS = 8
# Of the errors that KMS answers with a status below 500, those after which the same request may be answered.
_PASSING = frozenset(
    {
        "ThrottlingException",
        "Throttling",
        "LimitExceededException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "ExpiredTokenException",  # of the service's own credentials, which are renewed from outside
        "RequestExpired",
    }
)
_OTHER_CIPHERTEXT = frozenset({"InvalidCiphertextException", "IncorrectKeyException"})


def is_arn(text: str) -> bool:
    """Tell whether this is the ARN of a key."""
    return re.fullmatch(KMS_KEY_ARN, text) is not None


class AwsKms:
    """The connections of a process to AWS KMS, one client for each region."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="aws-kms")
        self._making = Lock()
        self._clients: dict[str, Any] = {}

    def close(self) -> None:
        """Take no further calls; those that hang are left to end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def call(self, operation: str, arn: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of KMS to one operation with a key. Raises KeyRefused, KeyUnreachable, SealBroken."""
        began_at, outcome = perf_counter(), "failed"
        try:
            region = arn.split(":")[3]
            if region not in self._clients:
                await self._in_thread(partial(self._make_client, region), LOADING_SECONDS)
            work = partial(self._call, self._clients[region], operation, {"KeyId": arn, **parameters})
            answer: dict[str, Any] = await self._in_thread(work, DEADLINE_SECONDS)
            outcome = "ok"
            return answer
        except (KeyRefused, SealBroken):
            outcome = "refused"
            raise
        except KeyUnreachable:
            outcome = "unreachable"
            raise
        finally:
            KEY_ENCRYPTION_SECONDS.labels("aws_kms", operation, outcome).observe(perf_counter() - began_at)

    async def _in_thread(self, work: Callable[[], Any], seconds: float) -> Any:
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            async with lag_tolerant_timeout(seconds):
                return await running
        except TimeoutError:
            raise KeyUnreachable(f"AWS KMS has not answered within {seconds:g} s") from None

    @staticmethod
    def _call(client: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError  # an extra

        try:
            return getattr(client, operation)(**parameters)
        except ClientError as failure:
            raise _refusal(failure.response) from failure
        except BotoCoreError as failure:
            raise KeyUnreachable(f"AWS KMS cannot be asked: {type(failure).__name__}") from failure

    def _make_client(self, region: str) -> None:
        # An extra, which takes time to import: loaded in this thread, when the first key is used.
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=_THREADS,
            user_agent_extra="zonewright",
        )
        with self._making:  # sessions are not made for threads
            if region in self._clients:
                return
            try:
                session = boto3.session.Session()
                self._clients[region] = session.client("kms", region_name=region, config=config)
            except BotoCoreError as failure:
                raise KeyUnreachable(f"AWS KMS cannot be asked: {type(failure).__name__}") from failure


def _refusal(response: Mapping[str, Any]) -> Exception:
    """What an error answer means. Its message names the service's own role, so only its code is told."""
    code = str(response.get("Error", {}).get("Code", "unknown"))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in _OTHER_CIPHERTEXT:
        return SealBroken(f"AWS KMS cannot decrypt it with this key: {code}")
    if status >= 500 or code in _PASSING:
        return KeyUnreachable(f"AWS KMS answers {code}")
    return KeyRefused(f"AWS KMS answers {code}")


class AwsKmsKey:
    """A key of AWS KMS."""

    __slots__ = ("_arn", "_kms")
    tells_versions = False  # KMS keeps every version of a key that it rotates, and opens with each

    def __init__(self, kms: AwsKms, arn: str) -> None:
        self._kms, self._arn = kms, arn

    def __repr__(self) -> str:
        return f"AwsKmsKey({self._arn!r})"

    @property
    def name(self) -> str:
        """The ARN, behind the name of the service."""
        return PREFIX + self._arn

    async def wrap(self, data_key: bytes, binding: Binding) -> WrappedKey:
        """The data key, encrypted under the binding's context. Raises KeyRefused, KeyUnreachable."""
        answer = await self._kms.call(
            "encrypt", self._arn, {"Plaintext": data_key, "EncryptionContext": dict(binding.context)}
        )
        return WrappedKey(self.name, bytes(answer["CiphertextBlob"]))

    async def unwrap(self, wrapped: WrappedKey, binding: Binding) -> bytes:
        """The data key again, under this key alone. Raises SealBroken, KeyRefused, KeyUnreachable."""
        answer = await self._kms.call(
            "decrypt",
            self._arn,
            {"CiphertextBlob": wrapped.ciphertext, "EncryptionContext": dict(binding.context)},
        )
        return bytes(answer["Plaintext"])

    def is_outdated(self, wrapped: WrappedKey, anew: WrappedKey) -> bool:
        """AWS KMS keeps every version of a key that it rotates, and does not say which one was used."""
        return False
