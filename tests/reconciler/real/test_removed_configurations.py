"""Removing a configuration, as docs/zonectl.md describes it: release its objects, then delete the zone."""

from tests.reconciler.real.company import Company

RELEASED = "lifecycle: {release: true}\n"


def test_a_released_zone_is_deleted_in_the_management_api(company: Company) -> None:
    """Nothing is deleted by the apply, and everything with the zone; the owner manages nothing then."""
    for file in sorted(company.folder.path.glob("*.yaml")):
        if file.name != "zonectl.yaml":
            documents = file.read_text().split("---\n")
            company.folder.write(file.name, "---\n".join(f"{each}{RELEASED}" for each in documents))
    plan = company.plan(expect=2).out
    assert {line.split()[1] for line in plan.splitlines() if line.startswith((">", "-", "~"))} == {"release"}
    company.apply()
    (zone,) = company.client.get("/zones", params={"slug": company.zone}).json()["items"]

    assert company.client.delete(f"/zones/{zone['id']}").status_code == 204
    assert not company.client.get("/zones", params={"slug": company.zone}).json()["items"]
    assert "nothing to do" in company.plan(expect=0).out


def test_no_apply_removes_everything(company: Company) -> None:
    """A wrong path would be a disaster."""
    for file in company.folder.path.glob("*.yaml"):
        if file.name != "zonectl.yaml":
            file.unlink()
    done = company.zonectl("plan", company.folder)

    assert done.exit_code == 64
    assert '"Remove a configuration"' in done.err
