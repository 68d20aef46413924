"""Rolling restarts, rotated and replaced keys, under load and without one failed exchange."""

import base64
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import jwt
import pytest
from tests.chaos.ledger import Answer, Ledger
from tests.chaos.load import Site
from tests.shipping.rolling import Nodes, failures, running, running_alone
from tests.support.kms import running_kms
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def platform(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Of this release."""
    with running(postgres, redis_server, tmp_path_factory.mktemp("platform")) as nodes:
        yield nodes


def signed_by(ledger: Ledger, site: Site) -> Counter[str]:
    """Key -> how many of the issued tokens it has signed. Every node publishes it, and signatures hold."""
    counts: Counter[str] = Counter()
    for node in site.nodes:
        address = site.stage.agent.issuer.replace(site.url, node)
        keys = (
            httpx.get(f"{address}/.well-known/jwks.json", trust_env=False).raise_for_status().json()["keys"]
        )
        known = {each["kid"]: jwt.PyJWK(each) for each in keys}
        for token in ledger.issued:
            kid = jwt.get_unverified_header(token)["kid"]
            jwt.decode(token, known[kid], options={"verify_aud": False})
            counts[kid] += 1
    return counts


def test_no_exchange_fails_in_a_rolling_restart(platform: Nodes):
    """Each node once, with SIGTERM, as an upgrade of the machine does."""
    with platform.under_load() as ledger:
        for node in platform.nodes:
            before = node.process
            platform.restart(node)
            assert node.process is not before
            platform.go_on(ledger)
    assert failures(ledger) == {}


def test_no_exchange_fails_in_a_key_rotation(platform: Nodes):
    """Another key of the same algorithm, and then another algorithm; what was issued before stays good."""
    slug = "acme-product"
    with platform.under_load() as ledger:
        platform.nodes[0].run("keys", "rotate", "--zone", slug)
        platform.go_on(ledger)
        platform.nodes[1].run("keys", "use", "--zone", slug, "--algorithm", "ES256")
        wait_until(
            lambda: any(jwt.get_unverified_header(token)["alg"] == "ES256" for token in list(ledger.issued)),
            seconds=120,
            otherwise=lambda: "nothing is signed with the new algorithm",
        )
        platform.go_on(ledger)
    assert failures(ledger) == {}
    assert len(signed_by(ledger, platform.site)) >= 2


CURRENT, OTHERS = "ZONED_KEY_ENCRYPTION_KEY", "ZONED_OTHER_KEY_ENCRYPTION_KEYS"
REWRAPPED = "wrapped anew: the keys of 3 zones; all others were already"


def restart_with(platform: Nodes, ledger: Ledger, **settings: str) -> None:
    """Restart one node after the other with these settings more; those that are empty are removed."""
    for node in platform.nodes:
        changed = {**node.settings, **settings}
        node.settings = {name: value for name, value in changed.items() if value}
        platform.restart(node)
        platform.go_on(ledger)


def test_no_exchange_fails_while_the_key_encryption_key_is_replaced(
    postgres: PostgresServer, redis_server: RedisServer, tmp_path: Path
):
    """As docs/operating/keys.md says: from the key file to AWS KMS, and the nodes end without the file."""
    with running_kms() as kms, running(postgres, redis_server, tmp_path) as platform:
        file = platform.nodes[0].directory / "key-encryption.key"
        new = f"aws-kms:{kms.key()}"
        with platform.under_load() as ledger:
            restart_with(platform, ledger, **kms.environment, **{OTHERS: new})
            restart_with(platform, ledger, **{CURRENT: new, OTHERS: file.read_text()})
            assert REWRAPPED in platform.nodes[0].run("keys", "rewrap")
            platform.go_on(ledger)
            file.rename(tmp_path / "old.key")
            restart_with(platform, ledger, **{OTHERS: ""})
        assert kms.calls["Decrypt"] > 0
    assert failures(ledger) == {}


def test_no_exchange_fails_while_stored_keys_of_the_embedded_database_are_wrapped_anew(tmp_path: Path):
    """By a command beside the one server; it ends without the old key."""
    with running_alone(tmp_path) as platform:
        (node,) = platform.nodes
        file = node.directory / "key-encryption.key"
        new = base64.b64encode(os.urandom(32)).decode()
        node.settings |= {CURRENT: new, OTHERS: file.read_text()}
        platform.restart(node)
        with platform.under_load() as ledger:
            assert REWRAPPED in node.run("keys", "rewrap")
            platform.go_on(ledger)
        del node.settings[OTHERS]
        file.rename(tmp_path / "old.key")
        platform.restart(node)
        with platform.under_load() as after:
            platform.go_on(after)
    assert failures(ledger) + failures(after) == {}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("exchange", 0, 1, 200), {}),
        (Answer("exchange", 0, 1, 400, "invalid_grant"), {"exchange: 400 invalid_grant": 1}),
        (Answer("cold", 0, 1, 503, "later"), {"cold: 503 later": 1}),
        (Answer("create", 0, 1, 0, "ReadError"), {"create: 0 ReadError": 1}),
    ],
)
def test_a_failed_request_counts(answer: Answer, told: dict[str, int]):
    """A refused exchange, too: nothing here is refused by right."""
    assert failures(Ledger(answers=[answer])) == told
