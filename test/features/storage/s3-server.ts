import { createHash, createHmac } from "node:crypto";

export type S3Credentials = { accessKeyId: string; secretAccessKey: string; region: string; bucket: string };
type Stored = { bytes: Uint8Array; type: string };

type S3TestServer = {
  endpoint: string;
  objects: Map<string, Stored>;
  /** `METHOD key → status` of every request, in order. */
  requests: string[];
  /** Multipart uploads in progress: the parts received so far, by number. */
  uploads: Map<string, Map<number, Uint8Array>>;
  /** Answers every request with 503, as a service in trouble does. */
  failing: boolean;
  /** Called before a part is stored; a status other than 200 refuses it. */
  onPart: ((number: number) => number | Promise<number>) | null;
  /** Other bytes that have come to the source by the time it is copied. */
  onCopy: (() => Uint8Array) | null;
  stop(): Promise<void>;
};

/** A bucket in memory that, like a real one, refuses requests whose Signature V4 does not match. */
export function s3TestServer(credentials: S3Credentials, now: () => number = Date.now): S3TestServer {
  const objects = new Map<string, Stored>();
  const requests: string[] = [];
  const uploads: S3TestServer["uploads"] = new Map();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const url = new URL(request.url);
      const [, bucket = "", ...rest] = url.pathname.split("/");
      const key = decodeURIComponent(rest.join("/"));
      const body = new Uint8Array(await request.arrayBuffer());
      const response = bucketServer.failing ? failure(503, "SlowDown") : await answer(request, url, bucket, key, body);
      requests.push(`${request.method} ${key} → ${response.status}`);
      return response;
    },
  });

  async function answer(request: Request, url: URL, bucket: string, key: string, body: Uint8Array<ArrayBuffer>) {
    const problem = refusal(request, url, body, credentials, now());
    if (problem) return failure(403, problem);
    if (bucket !== credentials.bucket) return failure(404, "NoSuchBucket");
    const inParts = await multipart(request, url, key, body);
    if (inParts) return inParts;
    const source = request.headers.get("x-amz-copy-source");
    if (request.method === "PUT" && source !== null) {
      const copied = objects.get(decodeURIComponent(source).replace(`/${bucket}/`, ""));
      if (!copied) return failure(404, "NoSuchKey");
      objects.set(key, { ...copied, bytes: bucketServer.onCopy?.() ?? copied.bytes });
      return new Response("<CopyObjectResult></CopyObjectResult>", { headers: { "content-type": "application/xml" } });
    }
    if (request.method === "PUT") {
      objects.set(key, { bytes: body, type: request.headers.get("content-type") ?? "binary/octet-stream" });
      return new Response(null, { headers: { etag: etagOf(body) } });
    }
    if (request.method === "DELETE") {
      objects.delete(key);
      return new Response(null, { status: 204 });
    }
    const stored = objects.get(key);
    if (!stored) return failure(404, "NoSuchKey");
    const headers: Record<string, string> = {
      "content-type": url.searchParams.get("response-content-type") ?? stored.type,
      "content-length": String(stored.bytes.byteLength),
      "last-modified": new Date(now()).toUTCString(),
      etag: '"x"',
    };
    const disposition = url.searchParams.get("response-content-disposition");
    if (disposition !== null) headers["content-disposition"] = disposition;
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "");
    if (range) {
      const from = Number(range[1]);
      const part = stored.bytes.slice(from, range[2] === "" ? undefined : Number(range[2]) + 1);
      const place = `bytes ${from}-${from + part.length - 1}/${stored.bytes.length}`;
      const about = { ...headers, "content-length": String(part.length), "content-range": place };
      return new Response(part, { status: 206, headers: about });
    }
    return new Response(request.method === "HEAD" ? null : new Uint8Array(stored.bytes), { headers });
  }

  /** Null when the request does not belong to an upload in parts. */
  async function multipart(request: Request, url: URL, key: string, body: Uint8Array<ArrayBuffer>) {
    if (request.method === "POST" && url.searchParams.has("uploads")) {
      const uploadId = `upload/${uploads.size + 1}+of&${key.length}`;
      uploads.set(uploadId, new Map());
      const escaped = uploadId.replaceAll("&", "&amp;");
      return new Response(
        `<InitiateMultipartUploadResult><UploadId>${escaped}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    const uploadId = url.searchParams.get("uploadId");
    if (uploadId === null) return null;
    const parts = uploads.get(uploadId);
    if (!parts) return failure(404, "NoSuchUpload");
    if (request.method === "DELETE") {
      uploads.delete(uploadId);
      return new Response(null, { status: 204 });
    }
    if (request.method === "PUT") {
      const number = Number(url.searchParams.get("partNumber"));
      const status = (await bucketServer.onPart?.(number)) ?? 200;
      if (status !== 200) return failure(status, "InternalError");
      parts.set(number, body);
      return new Response(null, { headers: { etag: etagOf(body) } });
    }
    const named = [...new TextDecoder().decode(body).matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>([^<]+)<\/ETag>/g)];
    const joined: Uint8Array[] = [];
    for (const [, number, etag] of named) {
      const part = parts.get(Number(number));
      if (!part || etagOf(part) !== etag?.replaceAll("&quot;", '"')) return failure(400, "InvalidPart");
      joined.push(part);
    }
    // Like the real service: all parts but the last have at least 5 MiB.
    if (joined.slice(0, -1).some(({ length }) => length < 5 * 1024 * 1024)) return failure(400, "EntityTooSmall");
    objects.set(key, { bytes: new Uint8Array(Buffer.concat(joined)), type: "video/webm" });
    uploads.delete(uploadId);
    return new Response("<CompleteMultipartUploadResult></CompleteMultipartUploadResult>");
  }

  const bucketServer: S3TestServer = {
    endpoint: `http://127.0.0.1:${server.port}`,
    objects,
    requests,
    uploads,
    failing: false,
    onPart: null,
    onCopy: null,
    stop: () => server.stop(true),
  };
  return bucketServer;
}

const etagOf = (bytes: Uint8Array) => `"${createHash("md5").update(bytes).digest("hex")}"`;

function failure(status: number, code: string): Response {
  return new Response(
    `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
    {
      status,
      headers: { "content-type": "application/xml" },
    },
  );
}

/** Null when the request is signed as AWS documents it, in the query or in the header; otherwise the error's code. */
export function refusal(
  request: Request,
  url: URL,
  body: Uint8Array,
  credentials: S3Credentials,
  now: number,
): string | null {
  const query = [...url.searchParams];
  const presigned = url.searchParams.get("X-Amz-Signature");
  const inHeader = /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
    request.headers.get("authorization") ?? "",
  );
  if (presigned === null && !inHeader) return "AccessDenied";
  const credential = presigned === null ? inHeader?.[1] : url.searchParams.get("X-Amz-Credential");
  const signedHeaders = (presigned === null ? inHeader?.[2] : url.searchParams.get("X-Amz-SignedHeaders")) ?? "";
  const date = (presigned === null ? request.headers.get("x-amz-date") : url.searchParams.get("X-Amz-Date")) ?? "";
  const payload = presigned === null ? (request.headers.get("x-amz-content-sha256") ?? "") : "UNSIGNED-PAYLOAD";

  const scope = `${date.slice(0, 8)}/${credentials.region}/s3/aws4_request`;
  if (credential !== `${credentials.accessKeyId}/${scope}`) return "InvalidAccessKeyId";
  if (!signedHeaders.split(";").includes("host")) return "AccessDenied";
  // Headers for the bucket itself must be signed, or an upload address could copy another's object.
  for (const name of request.headers.keys()) {
    if (name.startsWith("x-amz-") && !signedHeaders.split(";").includes(name)) return "AccessDenied";
  }
  const age = now - Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const lifetime = presigned === null ? 900 : Number(url.searchParams.get("X-Amz-Expires"));
  if (!(age >= -60_000 && age < lifetime * 1000)) return "RequestTimeTooSkewed";
  if (!["UNSIGNED-PAYLOAD", sha256(body)].includes(payload)) return "XAmzContentSHA256Mismatch";

  const canonical = [
    request.method,
    url.pathname,
    query
      .filter(([name]) => name !== "X-Amz-Signature")
      .map(([name, value]) => `${uriEncode(name)}=${uriEncode(value)}`)
      .sort()
      .join("&"),
    ...signedHeaders.split(";").map((name) => `${name}:${headerOf(request, url, name)}`),
    "",
    signedHeaders,
    payload,
  ].join("\n");
  const expected = signature(credentials, date, scope, canonical);
  return expected === (presigned ?? inHeader?.[3]) ? null : "SignatureDoesNotMatch";
}

function signature({ secretAccessKey, region }: S3Credentials, date: string, scope: string, canonical: string): string {
  const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
  const key = hmac(hmac(hmac(hmac(`AWS4${secretAccessKey}`, date.slice(0, 8)), region), "s3"), "aws4_request");
  return hmac(key, ["AWS4-HMAC-SHA256", date, scope, sha256(canonical)].join("\n")).toString("hex");
}

function headerOf(request: Request, url: URL, name: string): string {
  return (request.headers.get(name) ?? (name === "host" ? url.host : "")).trim().replace(/ +/g, " ");
}

function uriEncode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function sha256(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}
