"""Reads YAML manifests and checks them; every diagnostic carries file, line and column."""

from .configuration import Configuration, load_configuration
from .diagnostics import Diagnostic
from .source_files import SourceFiles, find_source_files

__all__ = ["Configuration", "Diagnostic", "SourceFiles", "find_source_files", "load_configuration"]
