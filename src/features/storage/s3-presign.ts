import { createHash, createHmac } from "node:crypto";

type Presigned = {
  method: string;
  /** The URL of the object, without a query. */
  url: URL;
  /** Headers that the request must have with exactly these values, or the bucket rejects it. */
  headers: Record<string, string>;
  /** Parameters of S3: `uploads`, `partNumber`, `uploadId`. */
  query?: Record<string, string>;
  ttlSeconds: number;
  at: number;
};

/**
 * Signs a URL together with headers (AWS Signature V4). Bun's own `presign` signs only the host, so that a client could
 * send anything of any length.
 */
export function presignS3(
  access: { accessKeyId: string; secretAccessKey: string; region: string },
  { method, url, headers, ttlSeconds, at, query: parameters = {} }: Presigned,
): string {
  const date = new Date(at).toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = `${date.slice(0, 8)}/${access.region}/s3/aws4_request`;
  const signed = Object.entries({ ...headers, host: url.host })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/ +/g, " ")] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const signedHeaders = signed.map(([name]) => name).join(";");
  const query = Object.entries({
    ...parameters,
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": `${access.accessKeyId}/${scope}`,
    "X-Amz-Date": date,
    "X-Amz-Expires": String(ttlSeconds),
    "X-Amz-SignedHeaders": signedHeaders,
  })
    .map(([name, value]) => `${name}=${encodeStrictly(value)}`)
    .sort()
    .join("&");
  const lines = signed.map(([name, value]) => `${name}:${value}`);
  const canonical = [method, url.pathname, query, ...lines, "", signedHeaders, "UNSIGNED-PAYLOAD"].join("\n");
  const toSign = ["AWS4-HMAC-SHA256", date, scope, createHash("sha256").update(canonical).digest("hex")].join("\n");
  const key = ["s3", "aws4_request"].reduce<Buffer>(
    (previous, part) => hmac(previous, part),
    hmac(hmac(`AWS4${access.secretAccessKey}`, date.slice(0, 8)), access.region),
  );
  return `${url.origin}${url.pathname}?${query}&X-Amz-Signature=${hmac(key, toSign).toString("hex")}`;
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/** Encodes by RFC 3986; `encodeURIComponent` leaves five more characters unencoded. */
function encodeStrictly(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}
