// suite: all
// needs: ffmpeg
/** What the URL of a tenant's ingress can reach: the server at that URL chooses the further addresses. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type CheckedProxy,
  openCheckedProxy,
  plainUrls,
  wantedUrl,
} from "../../src/gateways/livekit/ingress/fetcher/checked-proxy.ts";
import { inputOf } from "../../src/gateways/livekit/ingress/fetcher/main.ts";
import { media } from "../features/recordings/ffmpeg.ts";
import { makeCertificate } from "../ops/certificate.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-hostile-ingress-"));
const PUBLIC = "localhost";
const INSIDE = "inside.example";
/** Connections to a service of the private network. */
let connections = 0;
let inside: Server;
let insidePort: number;
let proxy: CheckedProxy;
let secure: Bun.Server<undefined>;
let plain: Bun.Server<undefined>;

function answer(request: Request): Response {
  const name = new URL(request.url).pathname.slice(1);
  const list = (line: string) =>
    new Response(`#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n${line}\n#EXT-X-ENDLIST\n`);
  if (name === "elsewhere.m3u8") return list(`https://${PUBLIC}:${secure.port}/film.ts`);
  if (name === "beside.m3u8") return list("film.ts");
  if (name === "redirect") return Response.redirect(`https://${PUBLIC}:${secure.port}/elsewhere.m3u8`);
  if (name.startsWith("hostile-")) return list(decodeURIComponent(name.slice("hostile-".length)));
  if (name.startsWith("leads-")) return Response.redirect(decodeURIComponent(name.slice("leads-".length)));
  return new Response(Bun.file(join(folder, name)));
}

beforeAll(async () => {
  media("ffmpeg", "-f", "lavfi", "-i", "testsrc=s=160x90:r=10:d=2", "-c:v", "mpeg2video", join(folder, "film.ts"));
  const { cert, key } = await makeCertificate(folder, PUBLIC);
  secure = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    tls: { cert: Bun.file(cert), key: Bun.file(key) },
    fetch: answer,
  });
  plain = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: answer });
  inside = createServer((socket) => {
    connections++;
    socket.on("error", () => {});
    socket.end("HTTP/1.1 200 OK\r\n\r\n");
  });
  await new Promise<void>((resolve) => inside.listen(0, "127.0.0.1", resolve));
  insidePort = (inside.address() as { port: number }).port;
  const ca = readFileSync(cert, "utf8");
  const trusting = ((url: URL, init: BunFetchRequestInit) =>
    fetch(url, { ...init, tls: { ...init.tls, ca } })) as typeof fetch;
  // The site of the tenant counts as public, everything else here as private.
  const lookup = async (name: string) => [name === PUBLIC ? "127.0.0.1" : "10.1.2.3"];
  proxy = await openCheckedProxy((target) => target === "loopback", lookup, trusting);
}, 60_000);
afterAll(async () => {
  proxy.close();
  inside.close();
  await Promise.all([secure.stop(true), plain.stop(true)]);
  rmSync(folder, { recursive: true });
});

/** The number of frames that ffmpeg reads. */
async function framesOf(url: string): Promise<number> {
  const output = ["-f", "null", "-progress", "pipe:1", "-"];
  const child = Bun.spawn(["ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error", ...inputOf(url), ...output], {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
    env: { PATH: process.env.PATH, http_proxy: `http://127.0.0.1:${proxy.port}`, no_proxy: "" },
  });
  const text = await new Response(child.stdout).text();
  await child.exited;
  return Number([...text.matchAll(/frame=(\d+)/g)].at(-1)?.[1] ?? 0);
}

test("films and playlists are read by http and https, even across hosts and redirects", async () => {
  for (const origin of [`http://${PUBLIC}:${plain.port}`, `https://${PUBLIC}:${secure.port}`]) {
    for (const path of ["film.ts", "beside.m3u8", "elsewhere.m3u8", "redirect"])
      expect([origin, path, await framesOf(`${origin}/${path}`)]).toEqual([origin, path, 20]);
  }
}, 60_000);

test("no playlist and no redirect leads past the proxy", async () => {
  const address = `127.0.0.1:${insidePort}/film.ts`;
  const schemes = [
    "httpproxy",
    "crypto+httpproxy",
    "tcp",
    "tls",
    "crypto+tcp",
    "rtmp",
    "ftp",
    "concat:http",
    "subfile",
  ];
  const urls = [...schemes.map((scheme) => `${scheme}://${address}`), `http://${INSIDE}:${insidePort}/film.ts`];
  for (const url of [...urls, `https://${INSIDE}:${insidePort}/film.ts`]) {
    for (const way of ["hostile", "leads"]) {
      const frames = await framesOf(`http://${PUBLIC}:${plain.port}/${way}-${encodeURIComponent(url)}`);
      expect([way, url, frames, connections]).toEqual([way, url, 0, 0]);
    }
  }
}, 60_000);

test("URLs with https have a form without, which the proxy reads back", () => {
  for (const [url, plainForm] of [
    ["https://a.example/x?y=1#z", "http://a.example.https.invalid:443/x?y=1#z"],
    ["HTTPS://a.example:8443", "http://a.example.https.invalid:8443"],
    [
      '#EXT-X-KEY:METHOD=AES-128,URI="https://k.example/1"',
      '#EXT-X-KEY:METHOD=AES-128,URI="http://k.example.https.invalid:443/1"',
    ],
    ["https://[2001:db8::1]/", "https://[2001:db8::1]/"],
    ["https://user:secret@a.example/", "https://user:secret@a.example/"],
    ["http://a.example/", "http://a.example/"],
  ] as const)
    expect(plainUrls(url)).toBe(plainForm);
  expect(wantedUrl("http://a.example.https.invalid:443/x?y=1")).toBe("https://a.example:443/x?y=1");
  expect(wantedUrl("http://a.example.https.invalid/x")).toBe("https://a.example:80/x");
  expect(wantedUrl("http://a.example:81/x")).toBe("http://a.example:81/x");
  for (const target of ["/x", "file:///etc/passwd", "https://a.example/", "a.example:443", "http://"])
    expect([target, wantedUrl(target)]).toEqual([target, null]);
});
