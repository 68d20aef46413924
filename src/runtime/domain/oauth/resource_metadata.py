"""The addresses of protected resource metadata, and the challenges that name them. Spec: RFC 9728."""

PATH = "/.well-known/oauth-protected-resource"


def address(resource: str, base: str) -> str:
    """The address of a resource's metadata: the well-known path is inserted before the resource's own path.

    Args:
        base: the address that the service is reached at, which the resource may begin with.
    """
    below = resource.removeprefix(base) if resource.startswith(f"{base}/") else ""
    return f"{base}{PATH}{below}" if below else f"{resource}{PATH}"


def challenge(scheme: str, where: str, **members: str) -> str:
    """A challenge that names the metadata at *where*, last.

    Args:
        members: of the challenge besides, in order; empty ones are left out.
    """
    named = {**members, "resource_metadata": where}
    pairs = ", ".join(f'{name}="{value}"' for name, value in named.items() if value)
    return f"{scheme} {pairs}".rstrip()
