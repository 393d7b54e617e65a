import type { EncryptionOptions } from "../../../src/protocol/encryption/key-provider.ts";
import { StoaError } from "../errors.ts";
import type { Encryption } from "./encryption.ts";

/** Only calls that are encrypted load the code for it. */
export async function loadEncryption(options: EncryptionOptions | undefined): Promise<Encryption | null> {
  if (!options) return null;
  if (typeof RTCRtpScriptTransform === "undefined") {
    throw new StoaError("NO_ENCRYPTION", "unsupported", "This browser cannot encrypt media.");
  }
  const { Encryption } = await import("./encryption.ts");
  return Encryption.create(options);
}
