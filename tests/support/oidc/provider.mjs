// An identity provider with a few people in it; whoever types a name is that person.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const found = createRequire(`${process.cwd()}/`).resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));
const { port, client, secret, callback, people } = JSON.parse(process.argv[2]);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: client, client_secret: secret, redirect_uris: [callback] }],
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  cookies: { keys: ['a test has no secrets'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: people[id] ?? [] }) }),
});
provider.listen(port, '127.0.0.1', () => console.log('ready'));
process.stdin.resume().on('end', () => process.exit(0));
