"""The warning about ports that differ between the address to listen on and the public URL."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from runtime.cli import main
from runtime.cli.addresses import port_mismatch
from runtime.settings import Settings


@pytest.mark.parametrize(
    ("listen", "public_url"),
    [
        ("127.0.0.1:9000", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://localhost:9000"),
        ("[::1]:8080", "http://[::1]:9000"),
        (":9000", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "http://localhost"),
    ],
)
def test_different_ports_on_loopback(listen: str, public_url: str) -> None:
    """Both settings are named, with their values."""
    found = port_mismatch(Settings(listen=listen, public_url=public_url))
    assert found is not None
    assert f"ZONED_LISTEN `{listen}`" in found.detail
    assert f"ZONED_PUBLIC_URL `{public_url}`" in found.detail


@pytest.mark.parametrize(
    ("listen", "public_url"),
    [
        ("127.0.0.1:9000", "http://localhost:9000"),
        ("127.0.0.1:80", "http://localhost"),
        ("127.0.0.1:0", "http://127.0.0.1:8080"),
        ("127.0.0.1:8080", "https://id.example"),
        ("127.0.0.1:8080", "https://localhost:8443"),
        ("127.0.0.1:8080", "http://id.example:9000"),
        ("0.0.0.0:8080", "http://127.0.0.1:9000"),
        ("192.0.2.1:8080", "http://127.0.0.1:9000"),
        ("nonsense", "http://127.0.0.1:9000"),
    ],
)
def test_nothing_is_wrong_behind_a_proxy_or_with_equal_ports(listen: str, public_url: str) -> None:
    """A container publishes its port as another one; with https a proxy stands in front."""
    assert port_mismatch(Settings(listen=listen, public_url=public_url)) is None


@pytest.mark.parametrize(("port", "warned"), [(9000, True), (8080, False)])
def test_init_and_doctor_warn(tmp_path: Path, port: int, warned: bool) -> None:
    """And go on: `init` sets the service up, and `doctor` finds no problem."""
    environment = {
        "ZONED_DATA_DIR": str(tmp_path / "data"),
        "ZONED_LISTEN": f"127.0.0.1:{port}",
        "ZONED_PUBLIC_URL": "http://127.0.0.1:8080",
    }
    runner = CliRunner(env=environment)
    made, checked = runner.invoke(main, ["init"]), runner.invoke(main, ["doctor"])
    assert (made.exit_code, checked.exit_code) == (0, 0), f"{made.output}{checked.output}"
    assert [f"the port {port}: callers" in each.output for each in (made, checked)] == [warned, warned]
