import { httpUrl } from "./checks.ts";

export type OAuthProvider = {
  /** Absent only for GitHub, which is not an OpenID Connect issuer. */
  readonly issuer: string | undefined;
  readonly clientId: string;
  readonly clientSecret: string;
};

/** Providers by name in lower case, as in /v1/auth/oauth/{provider}. */
export type OAuthProviders = Readonly<Record<string, OAuthProvider>>;

export const OAUTH_FIELDS = ["ISSUER", "CLIENT_ID", "CLIENT_SECRET"] as const;

const PATTERN = /^OAUTH_([A-Z0-9]{1,32})_(ISSUER|CLIENT_ID|CLIENT_SECRET)$/;

const KNOWN_ISSUERS: Readonly<Record<string, string>> = { google: "https://accounts.google.com" };

export function isOAuthName(name: string): boolean {
  return PATTERN.test(name);
}

/** Reads providers from OAUTH_<NAME>_… values. An incomplete provider is reported as a problem and is not used. */
export function readProviders(values: ReadonlyMap<string, unknown>): { providers: OAuthProviders; problems: string[] } {
  const providers: Record<string, OAuthProvider> = {};
  const problems: string[] = [];
  const names = new Set([...values.keys()].flatMap((name) => PATTERN.exec(name)?.[1] ?? []));
  for (const name of names) {
    const field = (suffix: string) => {
      const value = values.get(`OAUTH_${name}_${suffix}`);
      return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
    };
    const provider = name.toLowerCase();
    const issuer = field("ISSUER") ?? KNOWN_ISSUERS[provider];
    const clientId = field("CLIENT_ID");
    const clientSecret = field("CLIENT_SECRET");
    if (clientId === undefined) problems.push(`OAUTH_${name}_CLIENT_ID is missing for the provider ${provider}.`);
    if (clientSecret === undefined)
      problems.push(`OAUTH_${name}_CLIENT_SECRET is missing for the provider ${provider}.`);
    if (issuer === undefined && provider !== "github") {
      problems.push(`OAUTH_${name}_ISSUER is missing for the provider ${provider}.`);
    }
    if (issuer !== undefined && !httpUrl.accepts(issuer)) {
      problems.push(`OAUTH_${name}_ISSUER = ${JSON.stringify(issuer)}: must be ${httpUrl.expected}.`);
    } else if (issuer !== undefined && !isConfidential(issuer)) {
      problems.push(`OAUTH_${name}_ISSUER = ${JSON.stringify(issuer)}: plain http is accepted on loopback only.`);
    }
    if (clientId !== undefined && clientSecret !== undefined) providers[provider] = { issuer, clientId, clientSecret };
  }
  return { providers, problems };
}

/** Codes and secrets are sent to an issuer only over https or within the machine. */
function isConfidential(issuer: string): boolean {
  const { protocol, hostname } = new URL(issuer);
  return protocol === "https:" || hostname === "localhost" || hostname === "[::1]" || /^127\.[\d.]+$/.test(hostname);
}

/** `--oauth-acme-client-id=…` sets OAUTH_ACME_CLIENT_ID. */
export function oauthNameOfFlag(argument: string): string | undefined {
  const name = argument.split("=")[0]?.replace(/^--/, "").replaceAll("-", "_").toUpperCase() ?? "";
  return argument.startsWith("--") && isOAuthName(name) ? name : undefined;
}
