"""An untrusted repository cannot choose the server that a credential is sent to."""

import json
from pathlib import Path

import pytest
from tests.reconciler.fake_server import FakeServer, World
from tests.reconciler.hostile.conftest import WITHOUT_CONFIGURATION, Listener, Repository, every_command

from reconciler.exit_codes import CHANGES, FAILED, REFUSED, USAGE
from reconciler.plan.model import digest_of

# Arguments of every command that talks to a server, after PATH, and the exit code of its success, where
# nothing was applied yet.
CONNECTING = {
    "plan": ([], CHANGES),
    "drift": ([], FAILED),
    "apply": (["--yes"], 0),
    "watch": ([], 130),
}


def run(repository: Repository, command: str, *options: str, **settings: str) -> tuple[int, str]:
    """What a command with this configuration does: its exit code, and all that it prints."""
    arguments = ("config", *CONNECTING[command][0], *options)
    if command == "watch":
        return repository.watch(*arguments, **settings)
    done = repository.run(command, *arguments, **settings)
    return done.returncode, done.stdout + done.stderr


def test_every_command_that_connects_is_tried() -> None:
    """A new one is in the table, too."""
    connecting = {
        name
        for name, command in every_command().items()
        if any(each.name == "server" for each in command.params)
    }
    assert connecting == {*CONNECTING, *WITHOUT_CONFIGURATION}


@pytest.mark.threat("37a")
@pytest.mark.parametrize("command", WITHOUT_CONFIGURATION)
def test_commands_without_a_configuration_send_nothing_to_the_server_it_names(
    repository: Repository, server: FakeServer, attacker: Listener, command: str
) -> None:
    """`server:` beside where they are run, or in the configuration of `explain --config`."""
    for place in ("zonectl.yaml", "config/zonectl.yaml"):
        repository.write(place, f"owner: acme/identity\nserver: {attacker.url}\n")
    arguments = (*command.split(), *WITHOUT_CONFIGURATION[command])
    repository.run(*arguments, ZONECTL_SERVER=server.url)
    assert server.requests

    unknown = repository.run(*arguments, ZONECTL_STATE_DIR=str(repository.machine / "another"))
    assert unknown.returncode == USAGE, unknown.stderr
    assert (attacker.connections, attacker.received) == (0, b"")


@pytest.mark.threat("37a")
@pytest.mark.threat("37e")
@pytest.mark.parametrize("command", CONNECTING)
def test_the_server_of_a_configuration_only_confirms(
    repository: Repository, server: FakeServer, attacker: Listener, command: str
) -> None:
    """`server:` in zonectl.yaml: the one that the environment names, or nothing is sent to anybody."""
    repository.write("config/zonectl.yaml", f"owner: acme/identity\nserver: {server.url}/\n")
    code, said = run(repository, command, ZONECTL_SERVER=server.url)
    assert server.requests, said
    assert code == CONNECTING[command][1], said
    server.requests.clear()

    repository.write("config/zonectl.yaml", f"owner: acme/identity\nserver: {attacker.url}\n")
    named = run(repository, command, ZONECTL_SERVER=server.url)
    remembered = run(repository, command)
    forgotten = run(repository, command, ZONECTL_STATE_DIR=str(repository.machine / "another"))

    assert [code for code, _ in (named, remembered, forgotten)] == (
        [REFUSED, REFUSED, USAGE] if command != "watch" else [130, 130, USAGE]
    )
    told = [text for _, text in (named, remembered, forgotten)]
    wanted = ("`config/zonectl.yaml` names the server", "nothing was sent", "--server")
    assert [[words for words in wanted if words not in text] for text in told] == [[], [], []]
    assert (attacker.connections, attacker.received) == (0, b"")
    assert not server.requests


def test_the_listener_would_hear_it(repository: Repository, attacker: Listener) -> None:
    """Where somebody names it on the command line, the key does arrive: the tests here can fail."""
    repository.run("plan", "config", "--server", attacker.url, seconds=150)

    assert b"Authorization: Bearer zwk_test" in attacker.received


@pytest.mark.threat("37e")
def test_another_server_is_chosen_on_the_command_line(
    repository: Repository, server: FakeServer, world: World
) -> None:
    """The option that the message names is the one that works; from then on it is the remembered one."""
    repository.write("config/zonectl.yaml", f"owner: acme/identity\nserver: {server.url}\n")
    first = repository.run("plan", "config")
    assert first.returncode == USAGE
    assert "`--server URL` or ZONECTL_SERVER" in first.stderr
    assert repository.run("plan", "config", "--server", server.url).returncode == CHANGES
    assert repository.run("plan", "config").returncode == CHANGES

    with FakeServer.running(world) as moved:
        refused = repository.run("plan", "config", ZONECTL_SERVER=moved.url)
        assert refused.returncode == REFUSED
        assert f"`--server {moved.url}`" in refused.stderr
        assert not moved.requests
        assert repository.run("plan", "config", "--server", moved.url).returncode == CHANGES
        assert repository.run("plan", "config", ZONECTL_SERVER=server.url).returncode == REFUSED


@pytest.mark.threat("37b")
def test_the_server_of_a_saved_plan_only_confirms(
    repository: Repository, server: FakeServer, attacker: Listener, world: World
) -> None:
    """A plan with a digest that fits, made by somebody else: applied where it was made for, or nowhere."""
    saved = repository.path / "plan.json"
    made = repository.run("plan", "config", "--out", "plan.json", ZONECTL_SERVER=server.url)
    assert made.returncode == CHANGES
    content = json.loads(saved.read_bytes())
    content["server"] = attacker.url
    del content["digest"]
    forged = {**content, "digest": digest_of(content)}
    (repository.path / "forged.json").write_text(json.dumps(forged))
    server.requests.clear()

    named = repository.run("apply", "forged.json", ZONECTL_SERVER=server.url)
    remembered = repository.run("apply", "forged.json")
    unknown = repository.run("apply", "forged.json", ZONECTL_STATE_DIR=str(repository.machine / "another"))
    option = repository.run("apply", "forged.json", "--server", server.url)

    assert [each.returncode for each in (named, remembered, unknown, option)] == [
        REFUSED,
        REFUSED,
        USAGE,
        REFUSED,
    ]
    wanted = ("the saved plan `forged.json` names the server", "--server")
    told = [each.stderr for each in (named, remembered, unknown)]
    assert [[words for words in wanted if words not in text] for text in told] == [[], [], []]
    assert (attacker.connections, attacker.received) == (0, b"")
    assert not server.requests
    assert repository.run("apply", "plan.json").returncode == 0
    assert world.find("Zone", "workforce")


@pytest.mark.threat("37c")
@pytest.mark.parametrize(
    "name", [".env", ".envrc", "zonectl.env", "config/.env", "config/zonectl.env", ".netrc"]
)
def test_an_environment_file_of_a_repository_is_none(
    repository: Repository, server: FakeServer, attacker: Listener, name: str
) -> None:
    """Neither a server nor a place for zonectl's own files is taken from it."""
    repository.write(name, f"ZONECTL_SERVER={attacker.url}\nexport ZONECTL_STATE_DIR=.state\n")
    assert repository.run("plan", "config", ZONECTL_SERVER=server.url).returncode == CHANGES

    unknown = repository.run("plan", "config", ZONECTL_STATE_DIR=str(repository.machine / "another"))

    assert unknown.returncode == USAGE
    assert (attacker.connections, attacker.received) == (0, b"")


@pytest.mark.threat("37c")
@pytest.mark.parametrize("setting", ["ZONECTL_STATE_DIR", "XDG_STATE_HOME"])
def test_a_record_that_a_repository_brings_along_is_not_believed(
    repository: Repository, server: FakeServer, attacker: Listener, setting: str
) -> None:
    """A state directory inside the checkout, where a stranger could have put the record, counts as empty."""
    elsewhere = repository.machine / "state"
    assert (
        repository.run("plan", "config", "--server", server.url, **{setting: str(elsewhere)}).returncode
        == CHANGES
    )
    assert repository.run("plan", "config", **{setting: str(elsewhere)}).returncode == CHANGES
    (record,) = elsewhere.rglob("*.json")
    inside = repository.path / ".state" / record.relative_to(elsewhere)
    inside.parent.mkdir(parents=True)
    inside.write_text(json.dumps({"server": attacker.url}))
    inside.chmod(0o600)

    assert {
        repository.run("plan", "config", **{setting: place}).returncode
        for place in (str(repository.path / ".state"), ".state")
    } == {USAGE}
    assert (attacker.connections, attacker.received) == (0, b"")


@pytest.mark.threat("37d")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("account", [False, True])
def test_a_redirect_is_not_followed(
    repository: Repository, server: FakeServer, attacker: Listener, status: int, account: bool
) -> None:
    """Neither with an API key nor where a service account asks for its token; the message says where to."""
    settings = {"ZONECTL_SERVER": server.url}
    if account:
        settings |= {
            "ZONECTL_API_KEY": "",
            "ZONECTL_CLIENT_ID": "account",
            "ZONECTL_CLIENT_SECRET": "s3cret-s3cret",
        }
    assert repository.run("plan", "config", **settings).returncode == CHANGES
    server.failures.append((status, {"Location": f"{attacker.url}/organizations"}))

    refused = repository.run("plan", "config", **settings)

    assert refused.returncode == 1
    assert f"redirects to `{attacker.url}/organizations`" in refused.stderr
    assert "`--server`" in refused.stderr
    assert (attacker.connections, attacker.received) == (0, b"")


@pytest.mark.threat("37d")
def test_a_redirect_of_an_apply_is_not_followed(
    repository: Repository, server: FakeServer, attacker: Listener, world: World
) -> None:
    """With the secrets of the changeset in the body, least of all."""
    plan = repository.path / "plan.json"
    repository.run("plan", "config", "--out", plan, ZONECTL_SERVER=server.url)
    server.failures.append((307, {"Location": f"{attacker.url}/changesets"}))

    assert repository.run("apply", "plan.json").returncode == 1
    assert (attacker.connections, attacker.received) == (0, b"")
    assert repository.run("apply", "plan.json").returncode == 0
    assert world.find("Zone", "workforce")


def test_what_is_remembered_holds_no_secret(repository: Repository, server: FakeServer) -> None:
    """One file for a credential, of this user alone, named by a digest."""
    repository.run("plan", "config", "--server", server.url)
    state = Path(repository.environment()["HOME"], ".local", "state", "zonewright", "servers")
    (file,) = state.iterdir()

    assert json.loads(file.read_bytes()) == {"server": server.url}
    assert file.stat().st_mode & 0o777 == 0o600
    assert "zwk_test" not in file.name
