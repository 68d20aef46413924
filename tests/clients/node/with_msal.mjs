// MSAL in a web application for Node.js, which shares its core with the package for browsers.
import { CryptoProvider, PublicClientApplication } from "@azure/msal-node";
import { SITE, converse, settings } from "./program.mjs";

const { protocolMode, resource, codeChallengeMethod, ...auth } = settings;
const application = new PublicClientApplication({ auth, system: { protocolMode } });
const crypto = new CryptoProvider();
const { verifier, challenge } = await crypto.generatePkceCodes();
const [state, nonce] = [crypto.createNewGuid(), crypto.createNewGuid()];
const codes = codeChallengeMethod ? { codeChallenge: challenge, codeChallengeMethod } : {};
const request = { scopes: ["email"], redirectUri: `${SITE}/callback`, state, resource };

await converse(
  () => application.getAuthCodeUrl({ ...request, nonce, ...codes }),
  async (address) => {
    const answer = Object.fromEntries(new URL(address).searchParams);
    const payload = { code: answer.code, state: answer.state, nonce };
    const tokens = await application.acquireTokenByCode(
      { ...request, code: answer.code, nonce, codeVerifier: verifier },
      payload,
    );
    return { email: tokens.idTokenClaims.email, access_token: tokens.accessToken };
  },
);
