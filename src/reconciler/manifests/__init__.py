"""YAML into manifests, with file and line for everything that is wrong."""

from .configuration import Configuration, load_configuration
from .diagnostics import Diagnostic
from .sources import Source, find_source

__all__ = ["Configuration", "Diagnostic", "Source", "find_source", "load_configuration"]
