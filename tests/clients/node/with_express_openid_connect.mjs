// express-openid-connect in an Express application.
import express from "express";
import openid from "express-openid-connect";
import { Cookies, SITE, converse, settings } from "./program.mjs";

const app = express();
app.set("trust proxy", true);
app.use(openid.auth({ ...settings, secret: "a secret of this run, and of no other" }));
app.get("/", (request, response) => {
  response.json({ ...request.oidc.user, access_token: request.oidc.accessToken?.access_token });
});
app.use((error, request, response, next) => response.status(500).json({ error: String(error) }));

const server = app.listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const cookies = new Cookies();

async function get(path) {
  const headers = { cookie: cookies.header, "x-forwarded-proto": "https" };
  const address = `http://127.0.0.1:${server.address().port}${path}`;
  return cookies.take(await fetch(address, { headers, redirect: "manual" }));
}

await converse(
  async () => {
    const answer = await get("/login");
    if (answer.status !== 302) throw new Error(await answer.text());
    return answer.headers.get("location");
  },
  async (address) => {
    const answer = await get(address.slice(SITE.length));
    if (answer.status !== 302) throw new Error(await answer.text());
    return (await get("/")).json();
  },
);
