type Sdk = typeof import("../sdk/index.ts");

/** The SDK as this server hands it to every page: one file, loaded when somebody joins, and no second copy of it. */
const sdk = () => new URL("/sdk.js", location.origin).href;

export const roomClient = async (): Promise<Pick<Sdk, "connect">> => (await import(sdk())) as Sdk;
