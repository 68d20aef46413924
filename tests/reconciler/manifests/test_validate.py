"""`zonectl validate`: valid configurations, and the diagnostics of invalid ones."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds import Kinds
from reconciler.manifests import find_source_files, load_configuration

HEAD = "apiVersion: zonewright/v1\n"
ZONE = HEAD + "kind: Zone\nmetadata: {name: acme}\nspec: {name: Acme}\n"
AGENT = HEAD + "kind: Application\nmetadata: {zone: acme, name: agent}\nspec: {name: Agent}\n"


def only(result: Any) -> dict[str, Any]:
    """The one diagnostic of a validation as JSON."""
    (diagnostic,) = json.loads(result.out)["diagnostics"]
    return diagnostic


@pytest.fixture
def problem(config: Any, zonectl: Callable[..., Any]) -> Callable[[str], dict[str, Any]]:
    """What is wrong with one document beside a good zone."""

    def check(text: str) -> dict[str, Any]:
        config.write("zone.yaml", ZONE)
        config.write("bad.yaml", HEAD + text)
        result = zonectl("validate", config, "--output", "json")
        assert result.exit_code == 1
        return only(result)

    return check


def test_a_good_configuration_is_valid(config: Any, zonectl: Callable[..., Any]) -> None:
    """Files anywhere below the directory count; their place means nothing."""
    config.write("a/b/zone.yml", ZONE)
    config.write("agent.yaml", AGENT)
    config.write(".hidden/x.yaml", "nonsense")
    config.write("notes.txt", "nonsense")

    result = zonectl("validate", config)
    assert (result.exit_code, result.out) == (0, "2 manifests in 2 files: valid\n")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("kind: Applicaton\n", (2, 7), "unknown kind `Applicaton`; did you mean `Application`?"),
        ("kind: Zone\nmetadata: {nme: x}\nspec: {name: X}\n", (3, 12), "did you mean `name`?"),
        (
            "kind: Role\nmetadata: {zone: acme, name: r}\nspec:\n  descripton: x\n",
            (5, 3),
            "unknown member `descripton` in `spec`; did you mean `description`?",
        ),
        (
            "kind: Application\nmetadata: {zone: acme, name: a}\nspec: {name: A, consent: implict}\n",
            (4, 26),
            "`consent` cannot be `implict`; did you mean `implicit`?",
        ),
        (
            "kind: Application\nmetadata: {zone: acme, name: a}\nspec: {name: 5}\n",
            (4, 14),
            "`name` must be a string, not a number",
        ),
        (
            "kind: Application\nmetadata: {zone: acme, name: a}\nspec: {}\n",
            (4, 1),
            "`name` is missing in `spec`",
        ),
        (
            "kind: Role\nmetadata: {zone: acm, name: r}\nspec: {}\n",
            (3, 18),
            "there is no Zone `acm`; did you mean `acme`?",
        ),
        (
            "kind: Resource\nmetadata: {zone: acme, name: r}\nspec: {name: R, application: agnt}\n",
            (4, 30),
            "there is no Application `agnt` in zone `acme`",
        ),
        (
            "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar: x, cedar_file: y}\n",
            (4, 1),
            "only one of `cedar`, `cedar_file` may be given",
        ),
        (
            "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {name: p}\n",
            (4, 1),
            "one of `cedar`, `cedar_file`",
        ),
        ("kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: ../../x}\n", (4, 20), "outside"),
        (
            "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: /etc/passwd}\n",
            (4, 20),
            "outside",
        ),
        (
            "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: no.cedar}\n",
            (4, 20),
            "no file `no.cedar`",
        ),
        (
            (
                "kind: Application\nmetadata: {zone: acme, name: a}\nspec:\n  name: A\n  protocols: {oauth2: "
                "{redirect_uris: [{of_zone: acne, member: redirect_uri}]}}\n"
            ),
            (6, 50),
            "did you mean `acme`?",
        ),
        ("kind: Zone\nkind: Zone\n", (3, 1), "the key `kind` appears twice in one mapping"),
        ("Kind: Zone\n", (2, 1), "unknown member `Kind`; did you mean `kind`?"),
    ],
)
def test_says_what_is_wrong_and_where(
    problem: Callable[[str], dict[str, Any]], text: str, place: tuple[int, int], message: str
) -> None:
    """Line and column of the word itself, and what was probably meant."""
    found = problem(text)

    assert message in found["message"]
    assert (found["line"], found["column"]) == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: Group\nmetadata: {zone: acme, name: g}\nspec: {name: G, members: [ada]}\n",
            "an e-mail address",
        ),
        (
            "kind: Application\nmetadata: {zone: acme, name: a}\nspec: {name: A, metadata: {docs_url: x}}\n",
            "an absolute URI",
        ),
        ("kind: Role\nmetadata: {zone: acme, name: r}\nspec: {description: a<b}\n", "HTML tags or control"),
        (
            "kind: Role\nmetadata: {zone: acme, name: r}\nspec: {identifier: A B}\n",
            "lower-case letters and digits",
        ),
    ],
)
def test_says_what_a_pattern_is_for(
    problem: Callable[[str], dict[str, Any]], text: str, message: str
) -> None:
    """Nobody should have to read a regular expression to learn that an address is meant."""
    assert message in problem(text)["message"]


def test_a_mistake_says_nothing_about_its_neighbours(config: Any, zonectl: Callable[..., Any]) -> None:
    """The other documents of the same file are as good as they were."""
    config.write("all.yaml", ZONE + "---\n" + AGENT.replace("name: Agent", "nme: Agent") + "---\n" + ZONE)
    found = json.loads(zonectl("validate", config, "--output", "json").out)["diagnostics"]

    assert [(each["line"], each["code"]) for each in found] == [(9, "unknown-member")]


def test_shows_the_line_with_a_caret(
    config: Any, zonectl: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text form is what a person reads; the path is the one to open from here."""
    config.write("zone.yaml", ZONE.replace("name: Acme", "nmae: Acme, name: x"))
    monkeypatch.chdir(config.path.parent)
    result = zonectl("validate", "config")

    assert result.exit_code == 1
    assert "config/zone.yaml:4:8: error: unknown member `nmae`" in result.out
    assert "  4 | spec: {nmae: Acme, name: x}\n    |        ^^^^\n" in result.out


def test_duplicates_name_both_places(config: Any, zonectl: Callable[..., Any]) -> None:
    """One identity, one manifest."""
    config.write("a.yaml", ZONE)
    config.write("b.yaml", "\n" + ZONE)
    found = only(zonectl("validate", config, "--output", "json"))

    assert (found["path"], found["line"]) == ("b.yaml", 4)
    assert "already described at a.yaml:1" in found["message"]


def test_one_policy_set_of_a_zone_is_active(config: Any, zonectl: Callable[..., Any]) -> None:
    """Two would take turns: each apply would give the other one back, and call it drift."""
    one = HEAD + "kind: PolicySet\nmetadata: {zone: acme, name: one}\nspec: {policies: []}\n"
    two = one.replace("name: one", "name: two").replace("[]", "[], active: true")
    config.write("a.yaml", ZONE + "---\n" + one)
    config.write("b.yaml", two)
    found = only(zonectl("validate", config, "--output", "json"))

    assert (found["path"], found["line"], found["code"]) == ("b.yaml", 4, "not-sole")
    assert "`one` at a.yaml:6 has it" in found["message"]

    config.write("b.yaml", two.replace("true", "false"))
    config.write("c.yaml", (ZONE + "---\n" + one).replace("acme", "other"))
    assert zonectl("validate", config).exit_code == 0


def test_a_name_may_be_used_once_in_each_zone(config: Any, zonectl: Callable[..., Any]) -> None:
    """References stay within their zone, and say so when they would not."""
    config.write("a.yaml", ZONE + "---\n" + ZONE.replace("acme", "beta") + "---\n" + AGENT)
    resource = HEAD + "kind: Resource\nmetadata: {zone: beta, name: r}\nspec: {name: R, application: agent}\n"
    config.write("b.yaml", resource)
    found = only(zonectl("validate", config, "--output", "json"))
    assert "the one of that name is in zone `acme`" in found["message"]

    config.write("c.yaml", AGENT.replace("acme", "beta"))
    assert zonectl("validate", config).exit_code == 0


def test_an_external_reference_is_not_looked_for(config: Any, zonectl: Callable[..., Any]) -> None:
    """It names what is not in git."""
    resource = (
        HEAD
        + "kind: Resource\nmetadata: {zone: acme, name: r}\nspec: {name: R, application: {external: x}}\n"
    )
    config.write("a.yaml", ZONE + "---\n" + resource)

    assert zonectl("validate", config).exit_code == 0


class TestSecrets:
    PROVIDER = "kind: Provider\nmetadata: {zone: acme, name: p}\nspec:\n  name: P\n"

    def test_a_literal_is_refused_and_not_shown(self, config: Any, zonectl: Callable[..., Any]) -> None:
        """The message and the excerpt leave the value out; so do messages about its neighbours."""
        config.write(
            "p.yaml", HEAD + self.PROVIDER + "  client_secret: hunter2\n  x: {client_secret: hunter3, y: 1}\n"
        )
        result = zonectl("validate", config)

        assert result.exit_code == 1
        assert "is a secret and must not be in git" in result.out
        assert "hunter" not in result.out

    def test_a_misspelt_secret_is_not_shown(self, config: Any, zonectl: Callable[..., Any]) -> None:
        """A name that looks like a secret's is treated as one."""
        config.write(
            "p.yaml",
            HEAD + self.PROVIDER + "  {client_secrt: hunter2}\n".replace("  {", "  ").replace("}", ""),
        )
        config.write(
            "q.yaml", HEAD + "kind: Role\nmetadata: {zone: a, name: b}\nspec: {password: hunter2, zz: 1}\n"
        )
        result = zonectl("validate", config)

        assert "did you mean `client_secret`?" in result.out
        assert "hunter2" not in result.out.split("q.yaml")[1]

    def test_references_are_accepted(self, config: Any, zonectl: Callable[..., Any]) -> None:
        """From the environment, from a file, or kept."""
        for number, secret in enumerate(
            ("{from_env: A, version: '1'}", "{from_file: a.txt}", "{keep: true}")
        ):
            text = (
                HEAD + self.PROVIDER.replace("name: p", f"name: p{number}") + f"  client_secret: {secret}\n"
            )
            config.write(f"{number}.yaml", text)
        config.write("zone.yaml", ZONE)

        assert zonectl("validate", config).exit_code == 0


class TestFiles:
    def test_the_text_of_a_policy_is_put_in(self, config: Any, kinds: Kinds) -> None:
        """Relative to the manifest's own directory."""
        config.write("zone.yaml", ZONE)
        config.write("p/policies/a.cedar", "permit(principal, action, resource);")
        policy = (
            HEAD + "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: policies/a.cedar}\n"
        )
        config.write("p/policy.yaml", policy)
        found = load_configuration(find_source_files([config.path]), kinds)

        assert not found.diagnostics
        assert [each.spec for each in found.manifests if each.kind.name == "Policy"] == [
            {"cedar": "permit(principal, action, resource);"}
        ]

    def test_a_link_out_of_the_repository_is_refused(self, config: Any, tmp_path: Path, kinds: Kinds) -> None:
        """It is the file that counts, not its name."""
        (tmp_path / "outside.cedar").write_text("permit (principal, action, resource);")
        config.write("zone.yaml", ZONE)
        (config.path / "in.cedar").symlink_to(tmp_path / "outside.cedar")
        config.write(
            "p.yaml", HEAD + "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: in.cedar}\n"
        )
        (found,) = load_configuration(find_source_files([config.path]), kinds).diagnostics

        assert "leads out of the repository through a symbolic link" in found.message

    def test_a_file_may_lie_elsewhere_in_the_repository(
        self, config: Any, tmp_path: Path, kinds: Kinds
    ) -> None:
        """The repository is the nearest parent with `.git`."""
        (tmp_path / ".git").mkdir()
        (tmp_path / "outside.cedar").write_text("permit (principal, action, resource);")
        config.write("zone.yaml", ZONE)
        text = "kind: Policy\nmetadata: {zone: acme, name: p}\nspec: {cedar_file: ../outside.cedar}\n"
        config.write("p.yaml", HEAD + text)
        found = load_configuration(find_source_files([config.path]), kinds)

        assert not found.diagnostics
        assert str(found.manifests[0].origin) == "config/p.yaml:1"

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"\xef\xbb\xbf[1"])
    def test_what_is_no_text_is_a_finding(
        self, config: Any, zonectl: Callable[..., Any], content: bytes
    ) -> None:
        """Never a traceback."""
        config.path.joinpath("x.yaml").write_bytes(content)

        assert zonectl("validate", config).exit_code == 1

    def test_a_path_that_is_not_there_is_a_usage_error(
        self, zonectl: Callable[..., Any], tmp_path: Path
    ) -> None:
        """64, like an unknown flag."""
        assert zonectl("validate", tmp_path / "nowhere").exit_code == 64
        assert zonectl("validate", tmp_path, "--frobnicate").exit_code == 64
        assert zonectl("frobnicate").exit_code == 64


class TestCache:
    def test_a_warm_run_gives_the_same(self, config: Any, kinds: Kinds) -> None:
        """What is remembered is what was read."""
        config.write("a.yaml", ZONE + "---\n" + AGENT)
        source = find_source_files([config.path])

        assert load_configuration(source, kinds) == load_configuration(source, kinds)

    def test_a_changed_file_is_read_again(self, config: Any, kinds: Kinds) -> None:
        """The memory is keyed by content, not by time."""
        file = config.write("a.yaml", ZONE)
        before = file.stat()
        load_configuration(find_source_files([config.path]), kinds)
        file.write_text(ZONE.replace("Acme", "Abcd"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        found = load_configuration(find_source_files([config.path]), kinds)

        assert found.manifests[0].spec["name"] == "Abcd"

    def test_an_invalid_file_is_told_every_time(self, config: Any, kinds: Kinds) -> None:
        """Only what is valid is remembered."""
        config.write("a.yaml", ZONE.replace("name: Acme", "nme: Acme"))
        source = find_source_files([config.path])

        assert (
            load_configuration(source, kinds).diagnostics
            == load_configuration(source, kinds).diagnostics
            != ()
        )

    def test_a_damaged_cache_is_done_without(self, config: Any, kinds: Kinds) -> None:
        """It is JSON, and it may be anything."""
        config.write("a.yaml", ZONE)
        source = find_source_files([config.path])
        load_configuration(source, kinds)
        cache = Path(os.environ["ZONECTL_CACHE_DIR"])
        for file in cache.rglob("*.json"):
            file.write_bytes(b"[{]")

        assert not load_configuration(source, kinds).diagnostics


def test_validate_imports_nothing_heavy() -> None:
    """One file is answered within 0.3 s: no HTTP client, no terminal library, no watcher."""
    import subprocess
    import sys

    code = (
        "import sys\nfrom reconciler.cli import run\n"
        "run(['validate', '--help'])\nfrom reconciler.manifests import load_configuration\n"
        "heavy = {'httpx', 'rich', 'watchfiles', 'pydantic', 'rfc8785', 'stamina', 'ruamel'}\n"
        "bad = heavy & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_reference_by_identifier_is_answered_with_the_name(
    config: Any, zonectl: Callable[..., Any]
) -> None:
    """The object is in git, so it needs no `external`."""
    identifier = "https://tickets.example/api"
    tickets = (
        "kind: Resource\nmetadata: {zone: acme, name: tickets}\n"
        f"spec: {{name: Tickets, identifier: '{identifier}'}}\n"
    )
    config.write("a.yaml", ZONE + "---\n" + HEAD + tickets)
    config.write("b.yaml", AGENT.replace("{name: Agent}", "{name: Agent, dependencies: [tickets]}"))
    assert zonectl("validate", config).exit_code == 0

    config.write("b.yaml", AGENT.replace("{name: Agent}", f"{{name: Agent, dependencies: ['{identifier}']}}"))
    told = zonectl("validate", config).out
    assert f"there is no Resource `{identifier}` in zone `acme`, but one with this identifier" in told
    assert "write its manifest's name, `tickets`" in told
    assert "external" not in told


class TestManyMistakes:
    def test_of_one_document_are_counted(self, config: Any, zonectl: Callable[..., Any]) -> None:
        """Nobody reads thousands of lines, and nobody has to wait for them."""
        members = "".join(f"  a{number}: 1\n" for number in range(5000))
        config.write("bad.yaml", HEAD + "kind: Role\nmetadata: {zone: a, name: b}\nspec:\n" + members)
        found = json.loads(zonectl("validate", config, "--output", "json").out)["diagnostics"]

        assert len(found) == 101
        assert found[0]["message"] == "4,900 more problems are not shown; correct these first"

    def test_of_a_configuration_are_counted(self, config: Any, zonectl: Callable[..., Any]) -> None:
        """What was meant is looked for among all names, so that is not done for any number of references."""
        names = ", ".join(f"nobody-{number}" for number in range(20_000))
        roles = "---\n".join(
            HEAD + f"kind: Resource\nmetadata: {{zone: acme, name: r-{number}}}\nspec: {{name: R}}\n"
            for number in range(2000)
        )
        config.write("all.yaml", ZONE + "---\n" + roles)
        config.write("bad.yaml", AGENT.replace("{name: Agent}", f"{{name: Agent, dependencies: [{names}]}}"))
        found = json.loads(zonectl("validate", config, "--output", "json").out)["diagnostics"]

        assert len(found) == 1001
        assert found[0]["message"] == "19,000 more problems are not shown; correct these first"
