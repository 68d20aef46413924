"""Settings that are written a little wrong."""

from click.testing import CliRunner

from runtime.cli import main
from runtime.settings import Settings, misspelt


def test_a_variable_that_is_nearly_a_setting_is_told():
    """Not what others make below the same prefix, and no setting there is."""
    others = [
        "ZONED_SERVICE_HOST",
        "ZONED_SERVICE_PORT_HTTP",
        "ZONED_PORT",
        "ZONED_PORT_8080_TCP_ADDR",
        "PATH",
    ]
    known = [f"ZONED_{name.upper()}" for name in Settings.model_fields]
    assert misspelt(["ZONED_LISTN", *others, *known]) == [("ZONED_LISTN", "ZONED_LISTEN")]
    assert misspelt(["ZONED_PROXY", "ZONED_XQ"]) == [("ZONED_PROXY", "ZONED_PROXIES"), ("ZONED_XQ", None)]


def test_the_warning_stops_nothing():
    """It goes to standard error, so what a command prints can still be read by a program."""
    done = CliRunner().invoke(main, ["openapi"], env={"ZONED_DATABSE_URL": "x"})
    assert done.exit_code == 0
    assert done.stderr == "Warning: ZONED_DATABSE_URL is not a setting; did you mean ZONED_DATABASE_URL?\n"
    assert done.stdout.startswith("{")
