import { StoaError } from "../errors.ts";
import type { Encryption } from "./encryption.ts";
import { KeyProvider } from "./key-provider.ts";

/** How the room's tracks are encrypted: with a passphrase that all participants know, or with keys of your own. */
export type EncryptionOptions = { passphrase: string } | { keyProvider: KeyProvider };

/** Only calls that are encrypted load the code for it. */
export async function loadEncryption(options: EncryptionOptions | undefined): Promise<Encryption | null> {
  if (!options) return null;
  const keyProvider = "keyProvider" in options ? options.keyProvider : new KeyProvider();
  if ("passphrase" in options) keyProvider.setKey(null, options.passphrase);
  if (typeof RTCRtpScriptTransform === "undefined") {
    throw new StoaError("NO_ENCRYPTION", "unsupported", "This browser cannot encrypt media.");
  }
  const { Encryption } = await import("./encryption.ts");
  return new Encryption(keyProvider);
}
