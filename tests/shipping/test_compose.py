"""The compose file: what it promises of each service, its secrets, and how it fits the rest of deploy/."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.cli.worker import STOP_SECONDS
from runtime.settings import Settings

FOLDER = Path(__file__).resolve().parents[2] / "deploy/compose"
FILE = FOLDER / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NODES = ("node1", "node2")
# The account that each container runs as, by what its secrets are for.
OWNERS = {"zoned.yaml": 10001, "postgres-password": 999, "redis.conf": 999}


@pytest.mark.parametrize("name", SERVICES)
class TestServices:
    def test_has_no_rights(self, name: str):
        """Neither root nor a capability, and no program gives it more."""
        service = SERVICES[name]
        user, group = service["user"].split(":")
        assert int(user) > 0
        assert int(group) > 0
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert {"privileged", "cap_add", "pid", "network_mode", "devices"} & service.keys() == set()

    def test_cannot_write_to_its_image(self, name: str):
        assert SERVICES[name]["read_only"] is True

    def test_its_image_can_be_pinned_by_digest(self, name: str):
        """By an argument; without one it has a version, but for the image that is built here."""
        image = re.fullmatch(r"\$\{([A-Z]+_IMAGE):-(\S+):(\S+)\}", SERVICES[name]["image"])
        assert image is not None
        assert image[3] != "latest" or image[2] == "localhost/zonewright"

    def test_its_secrets_are_files(self, name: str):
        """The environment of a process is inherited, logged and shown by `inspect`."""
        environment = SERVICES[name].get("environment", {})
        suspicious = re.compile("PASSWORD|SECRET|KEY|TOKEN|_URL")
        assert [key for key in environment if suspicious.search(key) and not key.endswith("_FILE")] == []
        assert SERVICES[name]["secrets"]

    def test_says_when_it_is_well(self, name: str):
        """By a check of its own, or that of the project's image."""
        is_ours = "ZONEWRIGHT_IMAGE" in SERVICES[name]["image"]
        assert is_ours or SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_only_the_proxy_is_reachable():
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["nginx"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_starts_on_a_migrated_database(name: str):
    """And once what it works with answers."""
    assert SERVICES[name]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "postgres": {"condition": "service_healthy"},
        "redis": {"condition": "service_healthy"},
    }
    assert SERVICES["migrate"]["command"] == ["migrate"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_has_the_time_that_it_needs_to_stop(name: str):
    """After `ZONED_DRAIN_SECONDS` (docs/operating/serving.md)."""
    drain = int(SERVICES[name]["environment"]["ZONED_DRAIN_SECONDS"])
    assert drain > 0
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= drain + STOP_SECONDS


def test_redis_evicts_nothing():
    command = SERVICES["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_the_proxy_forwards_to_the_nodes():
    """Its file names their addresses, and is used as it is."""
    mounted = {each["source"]: each["target"] for each in SERVICES["nginx"]["volumes"]}
    (source,) = mounted
    text = (FOLDER / source).read_text()
    addresses = {SERVICES[name]["networks"]["inside"]["ipv4_address"] for name in NODES}
    assert set(re.findall(r"server ([0-9.]+):8080", text)) == addresses
    certificates = {each["target"] for each in SERVICES["nginx"]["secrets"]}
    assert set(re.findall(r"ssl_certificate(?:_key)? (\S+);", text)) == certificates


def test_every_secret_is_defined_and_used():
    used = {
        each if isinstance(each, str) else each["source"]
        for service in SERVICES.values()
        for each in service["secrets"]
    }
    assert used == COMPOSE["secrets"].keys()


def test_compose_itself_accepts_the_file(tmp_path: Path):
    """Without an engine: `config` reads, merges and validates."""
    command = next((each for each in (["docker", "compose"], ["docker-compose"]) if _answers(each)), None)
    if command is None:
        pytest.skip("there is no docker compose on this machine")
    written = tmp_path / "compose.yaml"
    written.write_text(FILE.read_text())
    good = subprocess.run([*command, "-f", written, "config"], capture_output=True, text=True, check=False)
    assert good.returncode == 0, good.stderr
    assert "/run/secrets/zoned.yaml" in good.stdout
    written.write_text(FILE.read_text().replace("cap_drop", "cap_dorp"))
    assert subprocess.run([*command, "-f", written, "config"], capture_output=True, check=False).returncode


def _answers(command: list[str]) -> bool:
    """Whether there is such a program."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0


class TestSecrets:
    """`secrets.sh`, run."""

    @pytest.fixture
    def made(self, tmp_path: Path) -> Path:
        if os.geteuid() != 0:
            pytest.skip("the secrets belong to other accounts: making them needs root")
        self.run(tmp_path / "secrets").check_returncode()
        return tmp_path / "secrets"

    @staticmethod
    def run(folder: Path) -> "subprocess.CompletedProcess[str]":
        command = ["sh", FOLDER / "secrets.sh", "https://id.example", folder]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_each_belongs_to_its_container_alone(self, made: Path):
        files = {file.name: file.stat() for file in made.iterdir()}
        assert {name: found.st_uid for name, found in files.items()} == OWNERS
        assert {found.st_mode & 0o777 for found in files.values()} == {0o400}

    def test_the_accounts_are_those_of_the_services(self):
        readers = {
            each: int(service["user"].split(":")[0])
            for service in SERVICES.values()
            for each in service["secrets"]
            if isinstance(each, str)
        }
        assert readers == OWNERS

    def test_the_service_takes_its_settings(self, made: Path):
        """As they are: no setting is misspelt, and the file may have the key."""
        settings = Settings.load(made / "zoned.yaml")
        password = (made / "postgres-password").read_text()
        assert settings.database_url == f"postgresql+asyncpg://zoned:{password}@postgres/zoned"
        assert settings.zone_url_template == "https://{slug}.id.example"
        assert settings.proxies == 1

    def test_redis_takes_its_password(self, made: Path):
        """The file is a configuration of Redis; its check finds the password in it."""
        password = (made / "redis.conf").read_text().split()[1]
        assert f":{password}@" in str(Settings.load(made / "zoned.yaml").redis_url)
        found = subprocess.run(
            ["sed", "-n", "s/^requirepass //p", made / "redis.conf"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == password
        assert (
            "sed -n 's/^requirepass //p' /run/secrets/redis.conf"
            in SERVICES["redis"]["healthcheck"]["test"][-1]
        )

    def test_nothing_is_overwritten(self, made: Path):
        """A second key would make everything that is stored unreadable."""
        before = (made / "zoned.yaml").read_text()
        again = self.run(made)
        assert again.returncode == 1
        assert "exists already" in again.stderr
        assert (made / "zoned.yaml").read_text() == before
