"""The start of the `zoned` command."""

import sys

import pytest

from runtime.start import main


def test_names_the_extra_when_the_service_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install has the command without the service: one line says what to install."""
    for name in [name for name in sys.modules if name.startswith("runtime.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sanic", None)

    with pytest.raises(SystemExit) as stopped:
        main()

    assert "`sanic` is not installed" in str(stopped.value)
    assert "zonewright[runtime]" in str(stopped.value)
