"""API keys of organizations."""

from tests.runtime.management.conftest import Api, caller

from runtime.services.management.organizations import api_keys
from runtime.services.parts import Parts
from runtime.storage.sql import api_keys as stored_keys


class TestApiKeys:
    def test_only_a_hash_is_kept(self, api: Api) -> None:
        """The database has no secret, and notes when the key was used."""
        clear = api.server.call(
            lambda parts: api_keys.create(parts, api.organization_id, name="k", role="org_viewer")
        )
        key_id, secret = clear.removeprefix("zwk_").split("_", 1)
        caller(api.server, clear, api.organization_id).ok("GET", "/zones")

        async def find(parts: Parts) -> stored_keys.ApiKey | None:
            async with parts.database.reading() as conn:
                return await stored_keys.find(conn, key_id)

        stored = api.server.call(find)
        assert stored is not None
        assert secret.encode() not in stored.secret_hash
        wrong = f"zwk_{key_id}_{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}"
        caller(api.server, wrong, api.organization_id).refused(401, "GET", "/zones")
