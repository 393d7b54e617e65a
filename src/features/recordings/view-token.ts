import { type Keyring, sameSecret } from "../../kernel/crypto/secrets.ts";
import { ApiError } from "../../protocol/errors.ts";

export type View = { recordingId: string; expiresAt: number };

/**
 * What a link to a replay carries: the recording, until when, and that we said so. One segment of letters and digits,
 * so that no log shows it.
 */
export function viewTokens(keyring: Keyring) {
  const sealed = (named: string) => keyring.digest("recording-view", named);
  return {
    mint({ recordingId, expiresAt }: View): string {
      const named = `${recordingId}.${expiresAt}`;
      return Buffer.from(`${named}.${sealed(named)}`).toString("base64url");
    },

    read(token: string, now: number): View {
      const text = Buffer.from(token, "base64url").toString();
      const [recordingId = "", expires = "", seal = ""] = text.split(".");
      if (!sameSecret(seal, sealed(`${recordingId}.${expires}`)))
        throw new ApiError("SVC_PERMISSION_DENIED", "The link was changed or was not issued by this server.");
      const expiresAt = Number(expires);
      if (now >= expiresAt) throw new ApiError("SVC_PERMISSION_DENIED", "The link has expired. Ask for another.");
      return { recordingId, expiresAt };
    },
  };
}
