/** What a sign-in under way is tied to: the code is worthless without it. */
export type Flow = { state: string; codeVerifier: string; nonce: string; redirectUri: string };

/** What a provider sent the browser back with. */
export type Callback = { code: string; iss?: string };

export type ProviderIdentity = {
  subject: string;
  /** Only an address that the provider calls verified. */
  verifiedEmail: string | null;
  name: string | null;
};

export type Provider = {
  authorizationUrl(flow: Flow): Promise<string>;
  /** Trades the code for who signed in; throws when the provider's answer does not hold. */
  identify(flow: Flow, callback: Callback): Promise<ProviderIdentity>;
};

export const TIMEOUT_MS = 10_000;
