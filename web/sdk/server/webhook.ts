import type { WebhookEventData } from "./api.ts";

type EventData = WebhookEventData & {
  /** Sent on request, to test an endpoint. */
  "webhook.test": { webhookId: string };
};

/** An event of one type, such as `WebhookEventOf<"call.ended">`. */
export type WebhookEventOf<T extends keyof EventData> = {
  /** The same in every delivery of the event: use it to recognise duplicates. */
  id: string;
  type: T;
  projectId: string;
  environment: "DEVELOPMENT" | "PRODUCTION";
  createdAt: string;
  data: EventData[T];
};

/** An event; its `type` decides the type of its `data`. A newer server may send types that are not listed here. */
export type WebhookEvent = { [T in keyof EventData]: WebhookEventOf<T> }[keyof EventData];

export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError";
}

const TOLERANCE_SECONDS = 300;

type HeadersLike = Headers | Record<string, string | string[] | undefined>;

/**
 * Returns the event if its signature is valid and at most five minutes old; throws otherwise (respond with 400).
 * `rawBody` must be the bytes as received: a body that was parsed and serialized again has another signature.
 * Deduplicate on `event.id`.
 */
export async function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: HeadersLike,
  secret: string,
  now: number = Date.now(),
): Promise<WebhookEvent> {
  const { timestamp, signatures } = parseSignature(headerOf(headers, "svc-signature"));
  if (Math.abs(now / 1000 - timestamp) > TOLERANCE_SECONDS) {
    throw new WebhookVerificationError("the signature is too old, or the clock is wrong");
  }
  const encoder = new TextEncoder();
  const body = typeof rawBody === "string" ? encoder.encode(rawBody) : rawBody;
  const signed = new Uint8Array([...encoder.encode(`${timestamp}.`), ...body]);
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, [
    "verify",
  ]);
  // `verify` compares in constant time. During a key rotation there are two signatures; one match is enough.
  const results = await Promise.all(
    signatures.map((signature) => crypto.subtle.verify("HMAC", key, signature, signed)),
  );
  if (!results.includes(true)) throw new WebhookVerificationError("no signature matches the body and the secret");
  return JSON.parse(new TextDecoder().decode(body)) as WebhookEvent;
}

function parseSignature(header: string): { timestamp: number; signatures: Uint8Array<ArrayBuffer>[] } {
  const parts = header.split(",").map((part) => part.trim().split("=", 2) as [string, string?]);
  const timestamp = Number(parts.find(([name]) => name === "t")?.[1]);
  const signatures = parts.filter(([name]) => name === "v1").map(([, hex = ""]) => bytesOf(hex));
  if (!Number.isInteger(timestamp) || signatures.length === 0) {
    throw new WebhookVerificationError("the svc-signature header is missing or malformed");
  }
  return { timestamp, signatures };
}

function headerOf(headers: HeadersLike, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? "";
  const entry = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return (Array.isArray(entry) ? entry[0] : entry) ?? "";
}

function bytesOf(hex: string): Uint8Array<ArrayBuffer> {
  if (!/^(?:[0-9a-f]{2})*$/i.test(hex)) return new Uint8Array();
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
