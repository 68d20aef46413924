"""The dashboard, the alert rules and the guide to monitoring, held against a running service.

Every metric and label that they name is in what a node exposes, and every expression is PromQL.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml
from tests.support.redis import RedisServer
from tests.support.server import serve

MONITORING = Path(__file__).parent.parent / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((MONITORING / "prometheus-rules.yaml").read_text("utf-8"))
PAGE = (MONITORING.parent.parent / "docs" / "operating" / "monitoring.md").read_text("utf-8")

ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"] if panel["type"] != "row"}
# What Prometheus adds to what it has scraped, or has of its own.
_OF_PROMETHEUS = {"up"}
# Functions that take a number which has become smaller for a counter that began again.
_OF_COUNTERS = {"rate", "irate", "increase"}
_COUNTERS = ("_total", "_count", "_sum", "_bucket")
_TARGET_LABELS = {"instance", "job", "exported_job"}
# Grafana's variables -> something that stands in their place when the expression is sent.
_VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$instance": ".*"}

ON_THE_PAGE = re.findall(r"^```promql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXPRESSIONS = (
    {f"alert {name}": rule["expr"] for name, rule in ALERTS.items()}
    | {
        f"panel {title}, {target['refId']}": target["expr"]
        for title, panel in PANELS.items()
        for target in panel["targets"]
    }
    | {f"guide {number}": expression for number, expression in enumerate(ON_THE_PAGE, 1)}
)


def parsed(expression: str) -> Any:
    """The expression, as Prometheus would read it. Raises ValueError."""
    for variable, value in _VARIABLES.items():
        expression = expression.replace(variable, value)
    return promql_parser.parse(expression)


def selectors(node: Any) -> Iterator[Any]:
    """Every selector of series in an expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    elif isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from selectors(node.lhs)
        yield from selectors(node.rhs)
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from selectors(argument)
    elif isinstance(node, promql_parser.AggregateExpr | promql_parser.ParenExpr | promql_parser.UnaryExpr):
        yield from selectors(node.expr)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> dict[str, set[str]]:
    """Name of every sample that a node on Redis may expose -> the labels that it is seen with."""
    redis_server.clear()
    with serve(tmp_path_factory.mktemp("server"), redis_url=redis_server.url) as server:
        httpx.get(f"{server.url}/z/nowhere/.well-known/jwks.json")
        text = httpx.get(f"{server.url}/metrics").text
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}.get(
                kind, ("",)
            )
            found |= {f"{name}{suffix}": set() for suffix in suffixes if f"{name}{suffix}" not in found}
        elif not line.startswith("#"):
            name, _, labels = line.rpartition(" ")[0].partition("{")
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def test_there_is_something_to_hold() -> None:
    """Ten alerts, thirty panels and what the guide counts, each expression once."""
    assert ON_THE_PAGE
    assert len(ALERTS) >= 10
    assert len(PANELS) >= 30
    assert len(EXPRESSIONS) >= 45


def of_counters(node: Any) -> Iterator[str]:
    """The names of what an expression takes the rate or the increase of."""
    if isinstance(node, promql_parser.Call):
        if node.func.name in _OF_COUNTERS:
            yield from (selector.name for selector in selectors(node))
        for argument in node.args:
            yield from of_counters(argument)
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from of_counters(node.lhs)
        yield from of_counters(node.rhs)
    elif isinstance(node, promql_parser.AggregateExpr | promql_parser.ParenExpr | promql_parser.UnaryExpr):
        yield from of_counters(node.expr)


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_each_expression_names_what_a_node_exposes(where: str, exposed: dict[str, set[str]]) -> None:
    """It is PromQL, and Prometheus finds every metric in it."""
    names = {selector.name for selector in selectors(parsed(EXPRESSIONS[where]))}

    assert names
    assert names - exposed.keys() - _OF_PROMETHEUS == set()


@pytest.mark.parametrize(
    "wrong", ["rate(zoned_request_seconds_count[5m]", "sum by instance (up)", "up{job=zoned}"]
)
def test_what_is_no_promql_is_refused(wrong: str) -> None:
    """The parser that the test above rests on is one."""
    with pytest.raises(ValueError):
        parsed(wrong)


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_each_label_is_one_of_the_metric(where: str) -> None:
    """A label that is misspelt matches nothing, and an alert on it never fires."""
    wrong = [
        (selector.name, matcher.name)
        for selector in selectors(parsed(EXPRESSIONS[where]))
        for matcher in selector.matchers.matchers
        if matcher.name not in _TARGET_LABELS | declared_labels(selector.name)
    ]

    assert wrong == []


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_only_counters_have_a_rate(where: str) -> None:
    """A gauge that falls would be taken for a counter that began again: all of it is an increase then."""
    assert [name for name in of_counters(parsed(EXPRESSIONS[where])) if not name.endswith(_COUNTERS)] == []


def declared_labels(sample: str) -> set[str]:
    """The labels that a metric of the service is declared with."""
    from prometheus_client import REGISTRY

    import runtime.metrics  # declares them

    assert runtime.metrics
    collector = REGISTRY._names_to_collectors.get(sample)
    return {*getattr(collector, "_labelnames", ()), "le", "worker"}


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_says_what_it_is(alert: str) -> None:
    """How urgent it is, what is wrong, and what to do; the guide has a row for it."""
    rule = ALERTS[alert]

    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    assert f"`{alert}`" in PAGE


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    """Ids are unique, panels lie beside each other, and each takes the data source that is chosen."""
    every = DASHBOARD["panels"]
    ids = [panel["id"] for panel in every]
    cells = [
        (column, line)
        for panel in every
        for place in [panel["gridPos"]]
        for column in range(place["x"], place["x"] + place["w"])
        for line in range(place["y"], place["y"] + place["h"])
    ]
    sources = {panel["datasource"]["uid"] for panel in PANELS.values()}

    assert DASHBOARD["schemaVersion"] >= 36
    assert (DASHBOARD["title"], DASHBOARD["uid"]) == ("zoned", "zoned")
    assert {"datasource", "instance"} == {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert len(ids) == len(set(ids))
    assert len(cells) == len(set(cells))
    assert max(column for column, _ in cells) == 23
    assert sources == {"${datasource}"}
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS.values()} <= {
        *("short", "reqps", "s", "percentunit", "bytes")
    }


def test_an_interval_has_more_than_one_scrape() -> None:
    """Grafana's `$__interval` may be shorter than the time between two scrapes, and finds nothing then."""
    by_interval = [
        panel for panel in PANELS.values() if any("$__interval" in each["expr"] for each in panel["targets"])
    ]

    assert len(by_interval) == 2
    assert {panel.get("interval") for panel in by_interval} == {"30s"}


def declared() -> dict[str, tuple[str, ...]]:
    """Name of each metric of the service, as its samples begin -> its labels."""
    from runtime import metrics

    return {
        each.describe()[0].name: each._labelnames
        for each in vars(metrics).values()
        if isinstance(each, metrics.Counter | metrics.Gauge | metrics.Histogram | metrics.Summary)
    }


def test_the_dashboard_and_the_alerts_leave_no_metric_out() -> None:
    """What the service measures is on the dashboard or in an alert: nobody looks at anything else."""
    told = " ".join(each for where, each in EXPRESSIONS.items() if not where.startswith("guide"))

    assert len(declared()) > 25
    assert {name for name in declared() if not re.search(rf"\b{name}(_|\b)", told)} == {
        "zoned_job_work",
        "zoned_job_last_success_timestamp_seconds",
    }


def test_the_guide_has_each_metric_with_its_labels() -> None:
    """In the table: the name, and in the same row every label by its name."""
    rows = {
        name: meaning
        for names, meaning in re.findall(r"^\| (`zoned_.*?) \| (.*) \|$", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+?)(?:_total)?`", names)
    }

    assert rows.keys() == declared().keys()
    missing = [
        (name, label)
        for name, labels in declared().items()
        for label in labels
        if not re.search(rf'`{label}(`|=")', rows[name])
    ]
    assert missing == []


_NODE = 'instance="one",job="zoned"'
_TOKENS = f'{_NODE},endpoint="/oauth/token"'
_KMS_REFUSES = 'service="aws_kms",operation="decrypt",outcome="refused"'
# Alert -> series of a node as promtool reads them, one value a minute, under which it fires.
TROUBLE = {
    "ZonedNodeDown": {f"up{{{_NODE}}}": "0x30"},
    "ZonedNotScraped": {'up{instance="one",job="other"}': "1x30"},
    "ZonedWorkersExit": {f"zoned_workers_replaced_total{{{_NODE}}}": "0 0 1 2 3 3x25"},
    "ZonedNodeRestarts": {f"zoned_node_start_time_seconds{{{_NODE}}}": "100 100 160 220 280 280x25"},
    "ZonedServerErrors": {
        f'zoned_request_seconds_count{{{_TOKENS},outcome="2xx"}}': "0+1000x30",
        f'zoned_request_seconds_count{{{_TOKENS},outcome="server_error"}}': "0+60x30",
    },
    "ZonedTokenEndpointSlow": {
        f'zoned_request_seconds_bucket{{{_TOKENS},outcome="2xx",le="0.5"}}': "0+95x30",
        f'zoned_request_seconds_bucket{{{_TOKENS},outcome="2xx",le="1"}}': "0+100x30",
        f'zoned_request_seconds_bucket{{{_TOKENS},outcome="2xx",le="+Inf"}}': "0+100x30",
    },
    "ZonedDatabaseUnavailable": {
        f"zoned_database_unavailable_total{{{_NODE}}}": "0+300x30",
        f'zoned_request_seconds_count{{{_TOKENS},outcome="2xx"}}': "0+50x30",
    },
    "ZonedOpenFiles": {
        f'process_open_fds{{{_NODE},worker="1"}}': "950x30",
        f'process_max_fds{{{_NODE},worker="1"}}': "1024x30",
    },
    "ZonedDatabasePoolExhausted": {
        f'zoned_database_wait_seconds_bucket{{{_NODE},le="0.1"}}': "0+80x30",
        f'zoned_database_wait_seconds_bucket{{{_NODE},le="1"}}': "0+100x30",
        f'zoned_database_wait_seconds_bucket{{{_NODE},le="+Inf"}}': "0+100x30",
    },
    "ZonedRedisUnavailable": {f'zoned_state_seconds_count{{{_NODE},outcome="refused"}}': "0+3x30"},
    "ZonedDecisionsNotWritten": {f'zoned_queue_length{{{_NODE},queue="decisions"}}': "6000x30"},
    "ZonedMessagesLate": {f"zoned_outbox_oldest_seconds{{{_NODE}}}": "1000x30"},
    "ZonedMessagesGivenUp": {f'zoned_outbox_messages{{{_NODE},state="dead"}}': "0x20 2x10"},
    "ZonedJobFails": {
        f'zoned_job_runs_total{{{_NODE},exported_job="retention",outcome="failed"}}': "0 1 2 3 4 4x25"
    },
    "ZonedClientsRefused": {
        f'zoned_refusals_total{{{_NODE},event="token_exchange",code="invalid_client"}}': "0+120x30"
    },
    "ZonedProviderUnavailable": {f"zoned_upstream_circuits_open{{{_NODE}}}": "1x30"},
    "ZonedEncryptionKeyUnavailable": {
        f"zoned_key_encryption_seconds_count{{{_NODE},{_KMS_REFUSES}}}": "0+2x30"
    },
    "ZonedWorkerBusy": {
        f'zoned_event_loop_lag_seconds_bucket{{{_NODE},le="0.1"}}': "0+80x30",
        f'zoned_event_loop_lag_seconds_bucket{{{_NODE},le="1"}}': "0+100x30",
        f'zoned_event_loop_lag_seconds_bucket{{{_NODE},le="+Inf"}}': "0+100x30",
    },
}
# What is no trouble, and might be taken for it.
_WELL = {
    f"up{{{_NODE}}}": "1x30",
    f"zoned_node_start_time_seconds{{{_NODE}}}": "100 100 160 220 220x26",  # twice
    f'process_start_time_seconds{{{_NODE},worker="1"}}': "100 100 160 220 280 340 340x24",
    f"zoned_workers_replaced_total{{{_NODE}}}": "0 0 1 2 2x26",
    f'zoned_request_seconds_count{{{_TOKENS},outcome="2xx"}}': "0+100x30",
    f'zoned_request_seconds_count{{{_TOKENS},outcome="too_many_requests"}}': "0+900x30",
    f'zoned_request_seconds_count{{{_TOKENS},outcome="invalid_grant"}}': "0+900x30",
    f"zoned_database_unavailable_total{{{_NODE}}}": "0x10 1+1x20",  # of 1,000 requests a minute
    f'process_open_fds{{{_NODE},worker="1"}}': "900x30",
    f'process_max_fds{{{_NODE},worker="1"}}': "1024x30",
    f'zoned_state_seconds_count{{{_NODE},outcome="answered"}}': "0+300x30",
    f'zoned_outbox_messages{{{_NODE},state="dead"}}': "7x10 2x20",
}


def firing(series: dict[str, str], tmp_path: Path) -> set[str]:
    """The alerts that Prometheus raises on these series within half an hour."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine: install `prometheus`")
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [  # each fails where the alert is raised
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                "eval_time": at,
                "exp_samples": [],
            }
            for alert in ALERTS
            for at in ("8m", "16m", "25m")
        ],
    }
    file = tmp_path / "tests.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(MONITORING / "prometheus-rules.yaml")], "tests": [case]})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    told = done.stdout + done.stderr
    raised = set(re.findall(r'alertname=\\?"(\w+)', told))
    assert bool(raised) == bool(done.returncode), told
    return raised


def test_prometheus_takes_the_configuration_of_the_guide(tmp_path: Path) -> None:
    """With the rules beside it, and with the name of the job that dashboard and alerts ask for."""
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine: install `prometheus`")
    [written] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    shutil.copy(MONITORING / "prometheus-rules.yaml", tmp_path)

    def check(configuration: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "prometheus.yaml").write_text(configuration)
        return subprocess.run(
            ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = check(written)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules" in done.stdout
    assert [each["job_name"] for each in yaml.safe_load(written)["scrape_configs"]] == ["zoned"]
    assert check(written.replace("targets", "tragets")).returncode == 1


def test_there_is_trouble_for_each_alert() -> None:
    """One that has none here was never seen to fire."""
    assert TROUBLE.keys() == ALERTS.keys()


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_fires_in_its_trouble_and_alone(alert: str, tmp_path: Path) -> None:
    """On the series that it is about, beside those of a node that is well."""
    series = _WELL | TROUBLE[alert]
    if alert == "ZonedNotScraped":
        series = TROUBLE[alert]

    assert firing(series, tmp_path) == {alert}


def test_none_fires_for_what_is_no_trouble(tmp_path: Path) -> None:
    """Strangers who are refused, a worker that was replaced, a request that the database did not serve."""
    assert firing(_WELL, tmp_path) == set()
