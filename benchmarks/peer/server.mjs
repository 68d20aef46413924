// The peer: node-oidc-provider with everything in memory, which grants client credentials with a signed JWT.
// node server.mjs PORT ALGORITHM CLIENT_ID CLIENT_SECRET RESOURCE; says `ready` once it listens.
import { generateKeyPairSync } from 'node:crypto';

import { Provider } from 'oidc-provider';

const [port, algorithm, clientId, clientSecret, resource] = process.argv.slice(2);
const SIGNING = { ES256: ['ec', { namedCurve: 'P-256' }], RS256: ['rsa', { modulusLength: 2048 }] };

const key = (alg) => ({
  ...generateKeyPairSync(...SIGNING[alg]).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: alg,
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: Object.keys(SIGNING).map(key) },
  clients: [{
    client_id: clientId,
    client_secret: clientSecret,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    token_endpoint_auth_method: 'client_secret_post',
  }],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        scope: 'tool.use',
        audience: resource,
        accessTokenTTL: 3600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: algorithm } },
      }),
    },
  },
});

provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
