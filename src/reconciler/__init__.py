"""The GitOps tool: manifests in, a plan out, one atomic changeset applied."""

__version__ = "0.1.0"
