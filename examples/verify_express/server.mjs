// An API in Express that accepts access tokens of a zone.
//
//     npm ci && node server.mjs RESOURCE ISSUER PORT
//
// RESOURCE is the identifier that the API is registered with, `https://api.acme.example/notes` for one; behind a
// proxy it is not the address that the API listens on. `jose` verifies the signature (RFC 9068); below it is what
// a zone offers besides: its revocation list, and the challenges that lead clients to it (RFC 9728).
import { createHash } from "node:crypto";
import express from "express";
import { createRemoteJWKSet, errors, jwtVerify } from "jose";

const [resource, issuer, port] = process.argv.slice(2);
const { origin, pathname } = new URL(resource);
const METADATA = `/.well-known/oauth-protected-resource${pathname === "/" ? "" : pathname}`;
const SCOPES = ["notes.read"]; // what every request needs
const TO_WRITE = [...SCOPES, "notes.write"]; // a challenge names all that the request needs

class Refused extends Error {
  constructor(status, error, more = {}) {
    super(error);
    const said = { ...(error && { error }), ...more, resource_metadata: `${origin}${METADATA}` };
    const parameters = Object.entries(said).map(([name, value]) => `${name}="${value}"`);
    Object.assign(this, { status, challenge: `Bearer ${parameters.join(", ")}` });
  }
}

// --- keys and revocations of the zone

const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`), { cacheMaxAge: 300_000 });
const digest = (value) => createHash("sha256").update(value).digest("base64url");
const WHOLE_EVERY = 600_000; // milliseconds: what has expired is in no newer list
const LIST = "revocation-list+jwt"; // signed: no proxy or cache on the way can take an entry out
const revocations = { entries: new Map(), readAt: -Infinity, wholeAt: -Infinity, next: "", reading: null };

/** What was revoked, at most a second old. */
async function revoked() {
  if (performance.now() - revocations.readAt > 1000) {
    revocations.reading ??= readRevocations().finally(() => (revocations.reading = null));
    await revocations.reading;
  }
  return revocations.entries.values();
}

async function readRevocations() {
  const now = performance.now();
  const isWhole = now - revocations.wholeAt > WHOLE_EVERY;
  const since = isWhole ? "" : `?since=${encodeURIComponent(revocations.next)}`;
  const options = { headers: { Accept: `application/${LIST}` }, signal: AbortSignal.timeout(5000) };
  const answer = await fetch(`${issuer}/.well-known/revocations${since}`, options);
  if (!answer.ok) throw new Error(`the zone's revocation list answers ${answer.status}`);
  const expected = { issuer, typ: LIST, algorithms: ["RS256", "ES256"], clockTolerance: 5 };
  const { payload: list } = await jwtVerify(await answer.text(), keys, expected).catch((failure) => {
    throw new Error(`the zone's revocation list is refused: ${failure.message}`);
  });
  const isLater = list.since !== undefined && (isWhole || Number(list.since) > Number(revocations.next));
  if (isLater) throw new Error("the zone's revocation list begins later than it was asked to");
  const entries = isWhole ? new Map() : revocations.entries;
  for (const each of list.revocations) entries.set(JSON.stringify(each), each);
  Object.assign(revocations, { entries, next: list.next, readAt: now }, isWhole && { wholeAt: now });
}

/** The names in the chain of a token, the caller's first. */
function actorsOf(claims) {
  const actors = [];
  for (let actor = claims.act; actor; actor = actor.act) actors.push(actor.sub);
  return actors;
}

/** What a token has under a name of an entry: `aud#S256` is the digest of its `aud`, `actor` any of its actors. */
function valuesOf(claims, name) {
  const [claim, hash] = name.split("#");
  const found = claim === "actor" ? actorsOf(claims) : [claims[claim]].filter((each) => each !== undefined);
  return hash ? found.map((each) => digest(String(each))) : found;
}

/** Whether an entry is about a token: each of its members is the token's, issued by then. */
function isMatched({ issued_until: until = Infinity, ...entry }, claims, cached) {
  if (claims.iat > until) return false;
  return Object.entries(entry).every(([name, value]) => {
    if (!cached.has(name)) cached.set(name, valuesOf(claims, name));
    return cached.get(name).includes(value);
  });
}

// --- the requests

async function verified(header) {
  const token = /^Bearer ([\w.-]{1,16384})$/i.exec(header ?? "")?.[1];
  if (!token) throw new Refused(401);
  const expected = { issuer, audience: resource, typ: "at+jwt", algorithms: ["RS256", "ES256"], clockTolerance: 5 };
  const { payload: claims } = await jwtVerify(token, keys, expected).catch((failure) => {
    const isZoneAway = failure instanceof errors.JWKSTimeout || !(failure instanceof errors.JOSEError);
    throw isZoneAway ? failure : new Refused(401, "invalid_token");
  });
  // A bound token needs the proof of its key (RFC 9449), which this program does not verify.
  if (claims.cnf) throw new Refused(401, "invalid_token");
  const cached = new Map();
  for (const entry of await revoked()) {
    if (isMatched(entry, claims, cached)) throw new Refused(401, "invalid_token");
  }
  return claims;
}

function requireScopes(claims, ...scopes) {
  const held = (claims.scope ?? "").split(" ");
  const scope = scopes.join(" ");
  if (!scopes.every((each) => held.includes(each))) throw new Refused(403, "insufficient_scope", { scope });
}

const shown = (claims) => ({ subject: claims.sub, actors: actorsOf(claims) });

const app = express();
app.get(METADATA, (request, response) => {
  const found = { resource, authorization_servers: [issuer], scopes_supported: TO_WRITE };
  response.json({ ...found, bearer_methods_supported: ["header"] });
});
app.use(async (request, response, next) => {
  request.claims = await verified(request.headers.authorization);
  requireScopes(request.claims, ...SCOPES);
  next();
});
app.get("/notes", (request, response) => response.json(shown(request.claims)));
app.post("/notes", (request, response) => {
  requireScopes(request.claims, ...TO_WRITE);
  response.status(201).json(shown(request.claims));
});
app.use((failure, request, response, next) => {
  if (failure instanceof Refused) response.status(failure.status).set("WWW-Authenticate", failure.challenge).end();
  else response.status(503).set("Retry-After", "5").end(); // without keys or revocations nothing is verified
});
app.listen(Number(port), "127.0.0.1");
