// oidc-client-ts: what it does in a page, with its state in memory.
import { InMemoryWebStorage, OidcClient, WebStorageStateStore } from "oidc-client-ts";
import { converse, settings } from "./program.mjs";

const stateStore = new WebStorageStateStore({ store: new InMemoryWebStorage() });
const client = new OidcClient({ ...settings, stateStore });

await converse(
  async () => (await client.createSigninRequest({})).url,
  async (address) => {
    const answer = await client.processSigninResponse(address);
    return { sub: answer.profile.sub, email: answer.profile.email, access_token: answer.access_token };
  },
);
