import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import Provider, { type Configuration } from "oidc-provider";

export type Person = { email: string; email_verified: boolean; name: string };

export type OidcServer = {
  issuer: string;
  /** Accounts by subject; a test adds to them. */
  people: Map<string, Person>;
  /** The subject that signs in at the provider. */
  seat(subject: string): void;
  /** Signs in as `subject` like a browser, and returns the parameters of the redirect. */
  visit(authorizationUrl: string, subject: string): Promise<URLSearchParams>;
  close(): Promise<void>;
};

export const OIDC_CLIENT = { clientId: "stoa", clientSecret: "oidc-client-secret" };

/**
 * A real OpenID Connect issuer on loopback, which requires PKCE and knows one client. It reads `redirectUris` with
 * the first request: a client that needs the issuer's address to start adds its own afterwards.
 */
export async function oidcServer(redirectUris: string[], overrides: Configuration = {}): Promise<OidcServer> {
  const people = new Map<string, Person>();
  let signsIn = "";
  const http = createServer((request, response) => void answer(request, response));
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  const issuer = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;

  const create = () =>
    new Provider(issuer, {
      clients: [
        {
          client_id: OIDC_CLIENT.clientId,
          client_secret: OIDC_CLIENT.clientSecret,
          redirect_uris: redirectUris,
          grant_types: ["authorization_code"],
        },
      ],
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
      findAccount: (_, sub) => {
        const person = people.get(sub);
        return person && { accountId: sub, claims: async () => ({ sub, ...person }) };
      },
      pkce: { required: () => true },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      cookies: { keys: ["test"] },
      ...overrides,
    });
  let created: Provider | undefined;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    created ??= create();
    const provider = created;
    if (!request.url?.startsWith("/interaction/")) return provider.callback()(request, response);
    const { params, prompt, grantId, session } = await provider.interactionDetails(request, response);
    if (prompt.name === "login") {
      return provider.interactionFinished(request, response, { login: { accountId: signsIn } });
    }
    const grant = grantId
      ? await provider.Grant.find(grantId)
      : new provider.Grant({ accountId: session?.accountId, clientId: String(params.client_id) });
    grant?.addOIDCScope("openid email profile");
    await provider.interactionFinished(request, response, { consent: { grantId: await grant?.save() } });
  }

  return {
    issuer,
    people,
    seat(subject) {
      signsIn = subject;
    },
    async visit(authorizationUrl, subject) {
      signsIn = subject;
      const cookies = new Map<string, string>();
      for (let url = authorizationUrl; ; ) {
        const response = await fetch(url, {
          redirect: "manual",
          headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
        });
        for (const line of response.headers.getSetCookie()) {
          const [name = "", value = ""] = (line.split(";")[0] ?? "").split("=");
          cookies.set(name, value);
        }
        const location = response.headers.get("location");
        if (location === null) throw new Error(`the provider answered ${response.status}: ${await response.text()}`);
        const next = new URL(location, issuer);
        if (next.origin !== issuer) return next.searchParams;
        url = next.href;
      }
    },
    close: () => new Promise((closed) => http.close(() => closed())),
  };
}
