"""The Helm chart, rendered and linted by Helm's own code: valid, without rights, and as documented."""

import copy
import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.cli.worker import STOP_SECONDS
from runtime.settings import Settings

helm = pytest.importorskip("helm_python", reason="there is no Helm for this platform on PyPI")

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/zonewright"
# Oldest and newest that the chart is for.
KUBERNETES = ("1.25", "1.37")
REQUIRED: dict[str, Any] = {
    "existingSecret": "zoned-settings",
    "settings": {"public_url": "https://id.example"},
}
EVERYTHING: dict[str, Any] = REQUIRED | {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "autoscaling": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/c": "d"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "service": {"annotations": {"example.com/e": "f"}},
    "drainSeconds": 20,
}
BOTH = pytest.mark.parametrize("values", [REQUIRED, EVERYTHING], ids=["required", "everything"])
_INFO = 1  # severity of what is no more than a hint (Helm, `pkg/lint/support`)
_OF_THE_OPERATOR = ("ServiceMonitor", "PrometheusRule")


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every object by its kind; the chart has one of each."""
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        texts = chart.render(values, name="zonewright", namespace="identity")
    objects = [
        each
        for name, text in texts.items()
        if name.endswith(".yaml")
        for each in yaml.safe_load_all(text)
        if each
    ]
    assert len({each["kind"] for each in objects}) == len(objects)
    return {each["kind"]: each for each in objects}


def pod_of(found: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    """The pod that a workload makes."""
    pod: dict[str, Any] = found[kind]["spec"]["template"]["spec"]
    return pod


def container_of(found: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one container of a workload."""
    (container,) = pod_of(found, kind)["containers"]
    return dict(container)


@BOTH
def test_helm_finds_nothing_to_lint(values: dict[str, Any]):
    assert flaws(CHART, values) == []


def flaws(chart: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Warnings and errors of `helm lint`; that an icon is recommended is neither."""
    messages: list[dict[str, Any]] = helm.lint(chart, values, strict=True)["messages"]
    return [each for each in messages if each["severity"] > _INFO]


def test_helm_lint_notices_a_template_that_is_none(tmp_path: Path):
    """By the same call."""
    shutil.copytree(CHART, tmp_path / "zonewright")
    (tmp_path / "zonewright/templates/service.yaml").write_text("{{ .Values.service.port")
    assert flaws(tmp_path / "zonewright", REQUIRED)


@pytest.fixture(scope="module")
def kubernetes_validate() -> Any:
    """The schemas of Kubernetes; the import takes seconds, which no process needs that only collects this."""
    return pytest.importorskip("kubernetes_validate")


@BOTH
@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_takes_every_object(kubernetes_validate: Any, values: dict[str, Any], kubernetes: str):
    """By its schemas, which refuse unknown members."""
    for kind, each in rendered(values).items():
        if kind not in _OF_THE_OPERATOR:
            kubernetes_validate.validate(each, kubernetes, strict=True)


def test_an_unknown_member_would_be_refused(kubernetes_validate: Any):
    """By the same validation."""
    wrong = copy.deepcopy(rendered(REQUIRED)["Deployment"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readOnly"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


def test_what_is_made_by_default():
    assert rendered(REQUIRED).keys() == {
        *("Deployment", "Job", "Service", "PodDisruptionBudget", "NetworkPolicy"),
    }
    assert rendered(EVERYTHING).keys() - rendered(REQUIRED).keys() == {
        *("HorizontalPodAutoscaler", "ServiceMonitor", "PrometheusRule"),
    }


@BOTH
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
class TestPods:
    def test_keep_to_the_restricted_pod_security_standard(self, values: dict[str, Any], kind: str):
        """As Kubernetes defines it, and with a read-only root file system besides."""
        found = rendered(values)
        pod, container = pod_of(found, kind), container_of(found, kind)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"hostNetwork", "hostPID", "hostIPC"} & pod.keys() == set()
        assert {next(iter(each.keys() - {"name"})) for each in pod["volumes"]} <= {"secret", "emptyDir"}

    def test_have_no_token_of_the_cluster(self, values: dict[str, Any], kind: str):
        assert pod_of(rendered(values), kind)["automountServiceAccountToken"] is False

    def test_get_secrets_as_a_file_that_others_cannot_read(self, values: dict[str, Any], kind: str):
        """The group may: it is that of the pod (`fsGroup`). The environment has none."""
        found = rendered(values)
        (secret,) = (each["secret"] for each in pod_of(found, kind)["volumes"] if "secret" in each)
        assert secret["secretName"] == "zoned-settings"
        assert secret["defaultMode"] == 0o440
        container = container_of(found, kind)
        assert not [each for each in container["env"] if "valueFrom" in each]
        (mount,) = (each for each in container["volumeMounts"] if each["name"] == "settings")
        assert container["args"][:2] == ["--config", f"{mount['mountPath']}/zoned.yaml"]

    def test_have_settings_that_there_are(self, values: dict[str, Any], kind: str):
        names = {each["name"] for each in container_of(rendered(values), kind)["env"]}
        assert names <= {f"ZONED_{name.upper()}" for name in Settings.model_fields}
        assert "ZONED_PUBLIC_URL" in names


@BOTH
def test_probes_are_those_of_the_guide(values: dict[str, Any]):
    """docs/operating/health.md: what is asked, how often, with which timeout, and after how many failures."""
    text = (ROOT / "docs/operating/health.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| a check every"))
    told = [tuple(map(int, re.findall(r"\d+", cell))) for cell in row.split("|")[2:4]]
    container = container_of(rendered(values), "Deployment")
    probes = [container["livenessProbe"], container["readinessProbe"]]
    assert [(each["periodSeconds"], each["timeoutSeconds"]) for each in probes] == told
    assert [each["httpGet"]["path"] for each in probes] == ["/healthz", "/readyz"]
    assert "after two failures" in text
    assert [each["failureThreshold"] for each in probes] == [2, 2]


@BOTH
def test_a_pod_has_the_time_that_it_needs_to_stop(values: dict[str, Any]):
    """`ZONED_DRAIN_SECONDS` and thirty seconds (docs/operating/serving.md)."""
    found = rendered(values)
    (drain,) = (
        int(each["value"])
        for each in container_of(found, "Deployment")["env"]
        if each["name"] == "ZONED_DRAIN_SECONDS"
    )
    assert drain == values.get("drainSeconds", 10)
    assert pod_of(found, "Deployment")["terminationGracePeriodSeconds"] >= drain + STOP_SECONDS


@BOTH
def test_pods_are_replaced_one_after_the_other(values: dict[str, Any]):
    """And never fewer than asked for."""
    spec = rendered(values)["Deployment"]["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert spec.get("replicas") == (None if values is EVERYTHING else 2)


@BOTH
def test_the_database_is_migrated_before_pods_are_replaced(values: dict[str, Any]):
    """In a hook: while those of the previous release serve."""
    found = rendered(values)
    assert found["Job"]["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert container_of(found, "Job")["args"][-1] == "migrate"
    assert container_of(found, "Job")["image"] == container_of(found, "Deployment")["image"]


@BOTH
def test_everything_selects_the_pods_that_serve(values: dict[str, Any]):
    """And none of the Job, which would be sent requests."""
    found = rendered(values)
    selectors = [
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    serving, migrating = (
        found[kind]["spec"]["template"]["metadata"]["labels"].items() for kind in ("Deployment", "Job")
    )
    assert [each.items() <= serving for each in selectors] == [True] * 4
    assert [each.items() <= migrating for each in selectors] == [False] * 4


def test_the_image_is_that_of_the_version_or_of_a_digest():
    plain, pinned = (container_of(rendered(each), "Deployment")["image"] for each in (REQUIRED, EVERYTHING))
    assert plain == f"localhost/zonewright:{version('zonewright')}"
    assert pinned == f"localhost/zonewright@sha256:{'0' * 64}"


def test_the_chart_has_the_version_of_the_package():
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == version("zonewright")


def test_the_rules_are_those_of_the_monitoring():
    """In the chart by a link, which Helm follows, and unchanged by rendering."""
    text = (ROOT / "deploy/monitoring/prometheus-rules.yaml").read_text()
    assert (CHART / "files/prometheus-rules.yaml").is_symlink()
    assert rendered(EVERYTHING)["PrometheusRule"]["spec"] == yaml.safe_load(text)


def test_what_is_scraped_has_the_job_that_rules_ask_for():
    (endpoint,) = rendered(EVERYTHING)["ServiceMonitor"]["spec"]["endpoints"]
    (job,) = (each["replacement"] for each in endpoint["relabelings"] if each["targetLabel"] == "job")
    assert f'job="{job}"' in (CHART / "files/prometheus-rules.yaml").read_text()


@pytest.mark.parametrize(
    "wrong",
    [
        {"existingSecret": ""},
        {"settings": {}},
        {"settings": {"public_url": "id.example"}},
        {"settings": {"public_url": "https://id.example", "database_url": "postgresql://a:b@c/d"}},
        {"settings": {"public_url": "https://id.example", "key_encryption_key": "secret"}},
        {"image": {"digest": "latest"}},
        {"replicas": 0},
        {"drainSeconds": 301},
        {"replicaCount": 3},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(wrong: dict[str, Any]):
    """By the schema, before anything is sent: secrets in plain values, misspelt ones, and nonsense."""
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(REQUIRED)
        with pytest.raises(helm.HelmError):
            chart.validate_schema(REQUIRED | wrong)


def test_notes_name_what_was_made():
    """The address, and how to make the first organization in a pod."""
    with helm.Chart.load(CHART) as chart:
        notes = chart.render(REQUIRED, name="zonewright", namespace="identity")[
            "zonewright/templates/NOTES.txt"
        ]
    assert "zonewright.identity.svc:80, for https://id.example" in notes
    assert "exec deploy/zonewright -- zoned --config /run/secrets/zoned/zoned.yaml init" in notes
