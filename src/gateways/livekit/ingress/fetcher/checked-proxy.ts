/**
 * The HTTP proxy of the ffmpeg that fetches a URL. Playlists and redirects lead ffmpeg to further addresses, so all its connections
 * begin here, where each IP address is checked before connecting to it. ffmpeg itself may only speak plain HTTP: with the protocols
 * that https requires, a playlist could name `httpproxy://10.0.0.1`, to which ffmpeg would connect directly. An https URL is
 * therefore rewritten for ffmpeg, and this proxy does the TLS.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { checkedFetch } from "../../../../kernel/net/checked-fetch.ts";
import type { Lookup, Target } from "../../../../kernel/net/targets.ts";

/** No name on the Internet ends with this (RFC 6761). */
const SECURE_SUFFIX = ".https.invalid";
const PLAYLIST = "#EXTM3U";
const MAX_PLAYLIST_BYTES = 4 * 1_024 * 1_024;
const FORWARDED = ["accept", "cookie", "icy-metadata", "range", "user-agent"];
const RETURNED = ["accept-ranges", "content-encoding", "content-range", "content-type", "set-cookie"];

export type CheckedProxy = { port: number; close(): void };

export async function openCheckedProxy(
  allows: (target: Target) => boolean,
  lookup: Lookup,
  fetch: typeof globalThis.fetch = globalThis.fetch,
): Promise<CheckedProxy> {
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = request.method === "GET" ? wantedUrl(request.url ?? "") : null;
    if (url === null) return void response.writeHead(400).end();
    const controller = new AbortController();
    response.on("close", () => controller.abort());
    const headers = { "accept-encoding": "identity", ...picked(request.headers, FORWARDED) };
    const answer = await checkedFetch({ fetch, lookup }, url, {
      method: "GET",
      allows,
      headers,
      signal: controller.signal,
    });
    const fields = picked(Object.fromEntries(answer.headers), RETURNED);
    const location = answer.headers.get("location");
    if (location !== null) fields.location = plainUrls(location);
    await send(answer, fields, response);
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => {
      // ffmpeg reports an incomplete response, or this status.
      if (response.headersSent) response.destroy();
      else response.writeHead(502).end();
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function send(answer: Response, fields: Record<string, string>, response: ServerResponse): Promise<void> {
  let beginning = Buffer.alloc(0);
  let isPlaylist: boolean | null = null;
  const write = (bytes: Uint8Array) =>
    response.write(bytes)
      ? null
      : new Promise<void>((resolve) => response.once("drain", resolve).once("close", resolve));
  const begin = () => {
    const length = answer.headers.get("content-length");
    response.writeHead(answer.status, { ...fields, ...(length === null ? {} : { "content-length": length }) });
    return write(beginning);
  };
  for await (const part of answer.body ?? []) {
    if (isPlaylist === false) {
      await write(part);
      continue;
    }
    beginning = Buffer.concat([beginning, part]);
    if (beginning.length > MAX_PLAYLIST_BYTES) throw new Error("the playlist is too long");
    if (beginning.length < PLAYLIST.length + 3) continue;
    isPlaylist ??= beginning.subarray(0, PLAYLIST.length + 3).includes(PLAYLIST);
    if (!isPlaylist) await begin();
  }
  if (isPlaylist) response.writeHead(answer.status, fields).end(plainUrls(beginning.toString()));
  else {
    if (isPlaylist === null) await begin();
    response.end();
  }
}

function picked(from: IncomingMessage["headers"], names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (from[name] === undefined ? [] : [[name, String(from[name])]])));
}

/** Rewrites https URLs in a text for ffmpeg. An IPv6 address cannot be rewritten. */
export function plainUrls(text: string): string {
  return text.replaceAll(/https:\/\/([\w.-]+)(?::(\d+))?(?=[/?#\s"']|$)/gi, (_, host: string, port = "443") => {
    return `http://${host}${SECURE_SUFFIX}:${port}`;
  });
}

/** The URL that ffmpeg requests from the proxy; null if it is invalid. */
export function wantedUrl(target: string): string | null {
  if (!target.startsWith("http://") || !URL.canParse(target)) return null;
  const url = new URL(target);
  if (!url.hostname.endsWith(SECURE_SUFFIX)) return url.href;
  const host = url.hostname.slice(0, -SECURE_SUFFIX.length);
  return `https://${host}:${url.port || 80}${url.pathname}${url.search}`;
}
