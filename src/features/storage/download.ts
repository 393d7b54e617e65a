import { type ByteRange, parseRange } from "../../kernel/http/range.ts";
import { ApiError } from "../../protocol/errors.ts";
import { contentDisposition } from "./content-headers.ts";

export type Download = {
  file: Bun.BunFile;
  filename: string;
  mimeType: string;
  size: number;
  sha256: string | null;
  /** When the URL expires, and cached copies with it. */
  expiresAt: number;
};

type Set = { status?: number | string; headers: Record<string, string | number | string[] | undefined> };

/** The file or the requested range, with headers that prevent a browser from executing it. */
export function downloadResponse(request: Request, set: Set, download: Download, now: number): Response {
  const { size } = download;
  const etag = `"${download.sha256}"`;
  const headers = headersOf(download, etag, now);
  if (request.headers.get("if-none-match")?.includes(etag)) return respond(set, 304, headers, null);

  // A range of another version would be combined with the wrong file.
  const ifRange = request.headers.get("if-range");
  const stale = ifRange !== null && ifRange !== etag;
  // Ranges are defined for GET only.
  const ignored = stale || request.method !== "GET";
  const range = ignored ? null : parseRange(request.headers.get("range"), size);
  if (range === "unsatisfiable") {
    set.headers["content-range"] = `bytes */${size}`;
    throw new ApiError("SVC_RANGE_NOT_SATISFIABLE");
  }
  const part: ByteRange = range ?? { start: 0, end: size - 1 };
  headers["content-length"] = String(part.end - part.start + 1);
  if (range) headers["content-range"] = `bytes ${part.start}-${part.end}/${size}`;
  return respond(
    set,
    range ? 206 : 200,
    headers,
    request.method === "HEAD" ? null : bodyOf(download.file, range, stale),
  );
}

function bodyOf(file: Bun.BunFile, range: ByteRange | null, stale: boolean): Blob | ReadableStream {
  if (range) return file.slice(range.start, range.end + 1);
  // Bun would apply the range header to a file, although the range is stale.
  return stale ? file.stream() : file;
}

function headersOf(download: Download, etag: string, now: number): Record<string, string> {
  return {
    "content-type": download.mimeType,
    "content-disposition": contentDisposition(download),
    "x-content-type-options": "nosniff",
    // A browser that renders the file runs no scripts and does not treat it as part of this origin.
    "content-security-policy":
      "default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'; sandbox",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": `private, max-age=${Math.floor((download.expiresAt - now) / 1000)}`,
    "accept-ranges": "bytes",
    etag,
  };
}

/** The status is also set on the context, where the log and the metrics read it. */
function respond(
  set: Set,
  status: number,
  headers: Record<string, string>,
  body: Blob | ReadableStream | null,
): Response {
  set.status = status;
  return new Response(body, { status, headers });
}
