type Sdk = typeof import("../sdk/index.ts");

/** Loads the SDK that this server serves to all pages when a call is joined, instead of bundling a second copy. */
const sdk = () => new URL("/sdk.js", location.origin).href;

export const loadSdk = async (): Promise<Pick<Sdk, "connect">> => (await import(sdk())) as Sdk;
