// Auth.js: its core, which every framework's package hands its requests to.
import { Auth } from "@auth/core";
import { Cookies, SITE, converse, settings } from "./program.mjs";

const config = {
  providers: [settings],
  secret: "a secret of this run, and of no other",
  trustHost: true,
  basePath: "/auth",
  callbacks: {
    jwt: ({ token, account }) => (account ? { ...token, access_token: account.access_token } : token),
    session: ({ session, token }) => ({ ...session, sub: token.sub, access_token: token.access_token }),
  },
};
const cookies = new Cookies();

async function ask(path, init = {}) {
  const headers = { cookie: cookies.header, ...init.headers };
  return cookies.take(await Auth(new Request(`${SITE}${path}`, { ...init, headers }), config));
}

await converse(
  async () => {
    const { csrfToken } = await (await ask("/auth/csrf")).json();
    const answer = await ask("/auth/signin/zonewright", {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ csrfToken }).toString(),
    });
    return answer.headers.get("location");
  },
  async (address) => {
    const answer = await ask(address.slice(SITE.length));
    if (answer.headers.get("location")?.includes("error")) throw new Error(answer.headers.get("location"));
    const session = await (await ask("/auth/session")).json();
    return { email: session.user.email, access_token: session.access_token };
  },
);
