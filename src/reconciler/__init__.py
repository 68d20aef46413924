"""The GitOps tool: manifests in, a plan out, one atomic changeset applied."""
