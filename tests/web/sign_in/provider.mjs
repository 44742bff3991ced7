// A real identity provider (oidc-provider of npm) for tests: MODULES PORT GROUPS_FILE KEYS_FILE REDIRECT [refresh].
// Groups are read each time it is asked, null: the account is disabled; its keys are those of the file at its start.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port, groups, keys, redirect, gives] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(createRequire(modules).resolve("oidc-provider")));
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{ client_id: "trainfare", client_secret: "a-secret-of-the-real-provider", redirect_uris: [redirect], token_endpoint_auth_method: "client_secret_basic", grant_types: ["authorization_code", "refresh_token"] }],
  issueRefreshToken: async () => gives === "refresh",
  rotateRefreshToken: true,
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "email", "groups"],
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  jwks: JSON.parse(readFileSync(keys, "utf8")),
  cookies: { keys: ["of-tests-alone"] },
  findAccount: (_, id) => {
    const said = JSON.parse(readFileSync(groups, "utf8")) ?? undefined;
    return said && { accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true, groups: said }) };
  },
});
provider.listen(Number(port), "127.0.0.1", () => process.stdout.write("listening\n"));
