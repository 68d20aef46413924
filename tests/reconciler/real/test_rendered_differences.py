"""A plan's text against its effect: names, summary lines and counts match what an apply does."""

import json
from pathlib import Path

import pytest
from tests.reconciler.conftest import Folder
from tests.reconciler.real.company import COMPANY, Company
from tests.reconciler.real.test_reviewing_plans import CONTRACTORS, GRANT, HEAD, called, credential

from reconciler.client import Api, NotReached
from reconciler.plan.model import digest_of


class TestNames:
    """Two groups exchange their names, and a grant goes on naming one of them."""

    @pytest.fixture
    def swapped(self, company: Company) -> Company:
        """Git says so, and nothing is applied yet."""
        company.write("groups.yaml", called("on-call", "standby") + GRANT)
        company.apply()
        text = called("standby", "on-call", was=("on-call", "standby"))
        company.write("groups.yaml", text + GRANT)
        return company

    def test_references_are_told_by_both_names(self, swapped: Company) -> None:
        """Whoever reads one name alone takes the one group for the other."""
        said = swapped.plan(expect=2).out
        assert '"Group/standby (was on-call)" -> "Group/on-call (was standby)"' in said
        assert '"Group/on-call"' not in said

    def test_that_is_what_the_apply_does(self, swapped: Company) -> None:
        """The role goes to the group that is called so from now on."""
        lisbon = swapped.found("groups", identifier="standby")["id"]
        swapped.apply()
        assert swapped.found("groups", identifier="on-call")["id"] == lisbon
        (role,) = swapped.send("GET", f"{swapped.collection('groups')}/{lisbon}/roles")["items"]
        assert role["role_id"] == swapped.found("roles", identifier="auditor")["id"]

    def test_a_saved_plan_is_applied(self, swapped: Company, tmp_path: Path) -> None:
        """What it calls them is held against the server, and is right."""
        swapped.plan("--out", str(tmp_path / "plan.json"), expect=2)
        root = ("--root", str(swapped.folder))
        done = swapped.zonectl("apply", tmp_path / "plan.json", *root, "--allow-env", "CORP_SECRET")
        assert done.exit_code == 0, done

    def test_what_is_in_zones_is_told_by_their_new_names(self, company: Company) -> None:
        """Of two zones that exchange their names, both lose and get something."""
        two = [f"{company.zone}-one", f"{company.zone}-two"]
        company.write("zones.yaml", zones(two) + "---\n" + in_zone("left", two[0]))
        company.apply()
        company.write("zones.yaml", zones(two[::-1], was=two) + "---\n" + in_zone("come", two[0]))
        told = {(each["op"], each["kind"]): each for each in company.plan_json()["actions"]}
        assert told["delete", "Group"]["zone"] == two[1]  # it is in the zone that is called so from now on
        assert told["create", "Group"]["zone"] == two[0]


def zones(names: list[str], was: list[str] | None = None) -> str:
    """Two zones, and the names that they had before."""
    manifests = []
    for title, name, before in zip(("One", "Two"), names, was or ["", ""], strict=True):
        lifecycle = f"lifecycle: {{previous_names: [{before}]}}\n" if before else ""
        manifests.append(
            f"{HEAD}kind: Zone\nmetadata: {{name: {name}}}\n{lifecycle}spec: {{name: {title}}}\n"
        )
    return "---\n".join(manifests)


def in_zone(name: str, zone: str) -> str:
    """A group in that zone."""
    return f"{HEAD}kind: Group\nmetadata: {{zone: {zone}, name: {name}}}\nspec: {{name: Group}}\n"


@pytest.fixture
def other(company: Company) -> Folder:
    """Another owner's configuration, which describes what is not its own."""
    other = Folder(company.folder.path.parent / "partners")
    other.write("zonectl.yaml", f"owner: partners/{company.zone}\nzones: [{company.zone}]\n")
    other.write("contractors.yaml", CONTRACTORS.replace("{zone}", company.zone))
    return other


class TestHeadline:
    """The line that says how much there is to do."""

    @pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
    def test_of_what_is_refused_says_so(
        self, company: Company, other: Folder, command: tuple[str, ...]
    ) -> None:
        """An object that another owner has not let go of is no reason to say that there is nothing to do."""
        name, *options = command
        done = company.zonectl(name, other, *options)
        assert done.exit_code == 5
        assert done.out.startswith("1 manifest: refused\n")

    def test_of_what_the_server_refuses_says_so(self, company: Company) -> None:
        """The changes are shown all the same."""
        company.write("policies.yaml", COMPANY["policies.yaml"].replace("resource);", "resource)when{1};"))
        assert "11 manifests: 1 to update; refused\n" in company.plan(expect=1).out

    def test_of_what_is_not_refused_does_not(self, company: Company) -> None:
        """Nor of a plan without changes."""
        assert company.plan(expect=0).out == "11 manifests: nothing to do\n"


def test_an_apply_counts_as_its_plan_does(company: Company) -> None:
    """Objects, and beside them operations: to replace one takes two of these."""
    company.write("groups.yaml", called("on-call", "standby") + GRANT)
    planned = company.plan(expect=2).out
    assert "14 manifests: 3 to create\n" in planned
    assert "applied: 3 created (3 operations), now at revision" in company.apply().out
    company.write("groups.yaml", called("on-call", "standby") + GRANT.replace("on-call", "standby"))
    assert "applied: 1 replaced (2 operations), now at revision" in company.apply().out


class TestWho:
    """Who did that and when is told to those who may read the audit trail, and the others are told of it."""

    UNTOLD = "note: this credential may not read the audit trail, "

    def test_is_told_to_an_administrator(self, company: Company) -> None:
        """And then there is no word on it."""
        company.send("PATCH", company.path("groups", identifier="staff"), name="By hand")
        said = (company.drift(expect=3), company.plan(expect=3).out)
        assert not [text for text in said if "    last written by api_key " not in text]
        assert not [text for text in said if self.UNTOLD in text]
        assert "names_writers" not in company.drift_json()
        assert "names_writers" not in company.plan_json()

    @pytest.mark.parametrize("role", ["org_member", "org_viewer"])
    def test_is_said_to_be_untold(self, company: Company, role: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once, however much there is, with who may read it; and not where there is nothing of others."""
        company.as_key(role, monkeypatch)
        assert not [
            said for said in (company.drift(expect=0), company.plan(expect=0).out) if self.UNTOLD in said
        ]
        company.send("PATCH", company.path("groups", identifier="staff"), name="By hand")
        company.send("DELETE", company.path("groups", identifier="contractors"))
        said = (company.drift(expect=3), company.plan(expect=3).out)
        assert [text.count(self.UNTOLD) for text in said] == [1, 1]
        assert not [text for text in said if "`org_admin`" not in text or "written by" in text]
        assert company.drift_json()["names_writers"] is False
        assert company.plan_json()["names_writers"] is False

    def test_what_is_unmanaged_has_writers_too(
        self, company: Company, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are told where it is listed, and so is that they are not."""
        company.send("POST", company.collection("applications"), name="By hand", identifier="by-hand")
        assert self.UNTOLD not in company.drift("--unmanaged", expect=0)
        company.as_key("org_viewer", monkeypatch)
        assert company.drift("--unmanaged", expect=0).count(self.UNTOLD) == 1
        assert self.UNTOLD not in company.drift(expect=0)


class TestShownOnce:
    """What the server makes and shows once needs a place, which a plan foretells."""

    TITLE = "ApplicationCredential {zone}/agent-key"
    NOTE = (
        "note: the server generates 1 secret and shows it once: `apply` needs `--secrets-dir DIRECTORY` to "
        "write it to"
    )

    @pytest.fixture
    def making(self, company: Company) -> Company:
        """The next apply makes a secret."""
        company.write("key.yaml", credential("password"))
        return company

    def test_a_plan_says_what_an_apply_wants(self, making: Company, tmp_path: Path) -> None:
        """In its text and as JSON; not where the place is named, nor where no secret is made."""
        assert self.NOTE in making.plan(expect=2).out
        assert making.plan_json()["shown_once"] == [self.TITLE.replace("{zone}", making.zone)]
        assert self.NOTE not in making.plan("--secrets-dir", str(tmp_path / "secrets"), expect=2).out
        making.apply("--secrets-dir", str(tmp_path / "secrets"))
        assert self.NOTE not in making.plan(expect=0).out
        assert "shown_once" not in making.plan_json()

    def test_an_apply_without_is_refused_as_by_any_guard(self, making: Company) -> None:
        """Before anything is sent, and before anybody is asked; beside what else stands against it."""
        making.write("groups.yaml", called("on-call", "standby"))
        before = making.items("groups")
        done = making.apply("--consent", "deletes=3", expect=5)
        title = self.TITLE.replace("{zone}", making.zone)
        told = f"{title}: the server generates a secret and shows it once; name"
        assert f"refused: {told}" in done.out
        assert "refused: `--consent deletes=3` does not match" in done.out
        assert "refused; nothing was changed\n" in done.err
        assert making.items("groups") == before
        codes = [
            each["code"] for each in json.loads(making.apply("--output", "json", expect=5).out)["guards"]
        ]
        assert codes == ["delivery"]

    def test_a_saved_plan_is_refused_too(self, making: Company, tmp_path: Path) -> None:
        """It was planned where nobody named a place."""
        making.plan("--out", str(tmp_path / "plan.json"), expect=2)
        apply = ("apply", tmp_path / "plan.json", "--root", making.folder)
        assert making.zonectl(*apply).exit_code == 5
        assert making.zonectl(*apply, "--secrets-dir", tmp_path / "secrets").exit_code == 0


class TestUnseen:
    """What a credential may not read is not compared, which is not the same as no drift."""

    def test_a_zone_that_the_credential_is_not_bound_to(
        self, company: Company, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A hand has meddled with what is in it."""
        other = COMPANY["zone.yaml"].replace("{zone}", "{zone}-other")
        group = "---\napiVersion: zonewright/v1\nkind: Group\nmetadata: {zone: {zone}-other, name: more}\n"
        company.write("other.yaml", f"{other}{group}spec: {{name: More}}\n")
        company.apply()
        company.drift(expect=0)
        (zone,) = company.client.get("/zones", params={"slug": f"{company.zone}-other"}).json()["items"]
        (more,) = company.send("GET", f"/zones/{zone['id']}/groups")["items"]
        company.send("PATCH", f"/zones/{zone['id']}/groups/{more['id']}", name="By hand")
        company.drift(expect=3)

        keys = f"/organizations/{company.server.organization_id}/api-keys"
        bound = company.send("POST", keys, name="bound", role="org_viewer", zones=[company.zone_id])
        monkeypatch.setenv("ZONECTL_API_KEY", bound["api_key"])
        said = company.drift(expect=1)
        assert f"not compared: Zone {company.zone}-other and 1 more may exist, but this credential" in said
        unseen = [f"Zone {company.zone}-other", f"Group {company.zone}-other/more"]
        assert company.drift_json()["unseen"] == unseen
        (company.folder.path / "other.yaml").unlink()
        assert company.drift(expect=0) == "no drift\n"
        assert "unseen" not in company.drift_json()

    def test_a_new_zone_is_not_there_for_who_sees_all(self, company: Company) -> None:
        """It is yet to be applied, and others have done nothing to it."""
        company.write("other.yaml", COMPANY["zone.yaml"].replace("{zone}", "{zone}-new"))
        assert company.drift(expect=0) == "no drift\n"


class TestNothingApplied:
    """Without anything that was applied there is nothing to compare, which is not the same as no drift."""

    def test_an_owner_whom_the_server_does_not_know(self, company: Company) -> None:
        """Misspelt, for one. The right one has no drift."""
        company.drift(expect=0)
        company.write("zonectl.yaml", f"owner: acme/{company.zone}x\n")
        said = company.drift(expect=1)
        assert said.startswith(f"nothing to compare: `acme/{company.zone}x` manages nothing here")
        assert "no drift" not in said
        told = company.drift_json()
        assert (told["managed"], told["nothing_applied"]) == (0, True)

    def test_before_the_first_apply(self, company: Company) -> None:
        """The same is true of who has yet to begin; after it there is no drift."""
        company.write("zonectl.yaml", f"owner: new/{company.zone}\n")
        for name in ("rest.yaml", "policies.yaml"):
            (company.folder.path / name).unlink()
        company.write("zone.yaml", COMPANY["zone.yaml"].replace("{zone}", "{zone}-new"))
        assert company.drift(expect=1).startswith("nothing to compare: ")
        company.apply()
        assert company.drift(expect=0) == "no drift\n"
        assert company.drift_json()["nothing_applied"] is False

    def test_all_that_was_applied_is_gone(self, company: Company) -> None:
        """That is drift: the server knows what was there."""
        company.send("DELETE", f"/zones/{company.zone_id}")
        assert "objects deleted by others" in company.drift(expect=3)

    def test_all_that_was_applied_is_released(self, company: Company) -> None:
        """Nothing is described any more that could drift."""
        zone = company.folder_text("zone.yaml")
        company.write("zonectl.yaml", f"owner: new/{company.zone}\n")
        for name in ("rest.yaml", "policies.yaml"):
            (company.folder.path / name).unlink()
        company.write("zone.yaml", zone.replace(company.zone, f"{company.zone}-new"))
        company.apply()
        company.write("zone.yaml", company.folder_text("zone.yaml") + "lifecycle: {release: true}\n")
        company.apply()
        assert company.drift(expect=0).startswith("no drift\n")

    def test_what_another_owner_has_is_not_compared(self, company: Company, other: Folder) -> None:
        """And that is said, also by an owner who has something."""
        name = f"mine-{company.zone}"
        other.write("mine.yaml", in_zone(name, company.zone))
        (other.path / "contractors.yaml").rename(other.path / "contractors.txt")
        assert company.zonectl("apply", other, "--yes").exit_code == 0
        done = company.zonectl("drift", other)
        assert (done.exit_code, done.out) == (0, "no drift\n")
        (other.path / "contractors.txt").rename(other.path / "contractors.yaml")
        done = company.zonectl("drift", other)
        assert done.exit_code == 1
        place = f"{other.path / 'contractors.yaml'}:1"
        assert f"not compared: {place}: Group `contractors` belongs to the configuration" in done.out


def test_what_nobody_describes_is_said_to_be_so(company: Company) -> None:
    """A mark alone tells nobody what it means."""
    company.send("POST", company.collection("applications"), name="By hand", identifier="by-hand")
    assert f"? Application {company.zone}/by-hand  in no configuration\n" in company.drift(
        "--unmanaged", expect=0
    )


class TestStoredSecrets:
    """A secret that the service keeps for an object goes with it."""

    def without_provider(self, company: Company) -> None:
        """Git describes it no longer."""
        company.write("rest.yaml", COMPANY["rest.yaml"].partition("---\n")[2])

    def test_a_deletion_says_so(self, company: Company, tmp_path: Path) -> None:
        """With the version; the plan can be saved and applied, and a saved one that hides it is refused."""
        self.without_provider(company)
        assert '    client_secret: version "1" is deleted\n' in company.plan(expect=2).out
        saved = tmp_path / "plan.json"
        company.plan("--out", str(saved), expect=2)
        content = json.loads(saved.read_bytes())
        hiding = {**content, "actions": [{**each, "changes": []} for each in content["actions"]]}
        del hiding["digest"]
        hidden = tmp_path / "hidden.json"
        hidden.write_text(json.dumps({**hiding, "digest": digest_of(hiding)}))
        apply = ("--root", company.folder)
        assert (
            "a wrong previous value or drift state for `client_secret`"
            in company.zonectl("apply", hidden, *apply).err
        )
        assert company.zonectl("apply", saved, *apply).exit_code == 0

    def test_one_that_somebody_has_set(self, company: Company) -> None:
        """Also where git never wrote one, or another than the one that is there."""
        provider = company.path("providers", identifier="https://corp.example")
        company.send("PATCH", provider, client_secret="of a hand")
        self.without_provider(company)
        said = 'client_secret: the one that overwrote version "1" on the server is deleted\n'
        assert said in company.plan(expect=2).out

    def test_without_one_there_is_nothing_to_say(self, company: Company) -> None:
        """A group has none."""
        company.write("rest.yaml", COMPANY["rest.yaml"].replace(f"---\n{CONTRACTORS}", ""))
        assert "secret" not in company.plan(expect=2).out


class TestRenewing:
    """What is in its file is not lost, whatever the server has heard of it."""

    @pytest.fixture
    def unconfirmed(self, company: Company, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
        """A secret has arrived, and the word of that has not."""

        def cut(*_: object) -> None:
            raise NotReached("cut")

        company.write("key.yaml", credential("password"))
        with monkeypatch.context() as patch:
            patch.setattr(Api, "confirm", cut)
            company.apply("--secrets-dir", str(tmp_path / "secrets"))
        return company

    def test_what_is_in_its_file_is_left_alone(self, unconfirmed: Company, tmp_path: Path) -> None:
        """The plan and the apply say so, and then it is confirmed."""
        (file,) = (tmp_path / "secrets").iterdir()
        before = file.read_bytes()
        options = ("--renew-lost", "--secrets-dir", str(tmp_path / "secrets"))
        said = unconfirmed.plan(*options, expect=0).out
        title = f"ApplicationCredential {unconfirmed.zone}/agent-key"
        assert f"note: the secret of {title} is in {file}: an apply confirms it" in said
        done = unconfirmed.apply(*options)
        assert f"confirmed: the secret of {title} is in {file}\n" in done.err
        assert file.read_bytes() == before
        assert "lost" not in unconfirmed.plan(expect=0).out

    def test_what_is_not_there_is_replaced(self, unconfirmed: Company, tmp_path: Path) -> None:
        """In another directory there is nothing, or the secret of another object."""
        options = ("--renew-lost", "--secrets-dir", str(tmp_path / "others"))
        assert "1 to replace" in unconfirmed.plan(*options, expect=2).out
        assert "1 to replace" in unconfirmed.plan("--renew-lost", expect=2).out
        (file,) = (tmp_path / "secrets").iterdir()
        file.write_text(json.dumps({**json.loads(file.read_bytes()), "id": "another"}))
        options = ("--renew-lost", "--secrets-dir", str(tmp_path / "secrets"))
        assert "1 to replace" in unconfirmed.plan(*options, expect=2).out
        assert "applied: 1 replaced" in unconfirmed.apply(*options, "--consent", "deletes=1").out
        assert "lost" not in unconfirmed.plan(expect=0).out
