import { createHmac } from "node:crypto";
import { secretBytes } from "./secret.ts";

/**
 * What proves a delivery: `svc-signature` is keyed with the whole secret, the Standard Webhooks headers with its decoded
 * bytes. While a rotated secret is still valid, both secrets sign.
 */
export function signatureHeaders(
  secrets: readonly string[],
  eventId: string,
  body: string,
  now: number,
): Record<string, string> {
  const seconds = Math.floor(now / 1000);
  const own = secrets.map((secret) => createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex"));
  const standard = secrets.map((secret) =>
    createHmac("sha256", secretBytes(secret)).update(`${eventId}.${seconds}.${body}`).digest("base64"),
  );
  return {
    "svc-signature": [`t=${seconds}`, ...own.map((hex) => `v1=${hex}`)].join(","),
    "svc-event-id": eventId,
    "webhook-id": eventId,
    "webhook-timestamp": String(seconds),
    "webhook-signature": standard.map((base64) => `v1,${base64}`).join(" "),
  };
}
