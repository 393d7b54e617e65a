import { afterAll, expect, test } from "bun:test";
import { realServer } from "../harness/real-server.ts";

const server = await realServer();
afterAll(server.close);

const { body: asked } = await server.call("POST", "/v1/people/ann/exports");
await server.services.privacy.exports.settled();
const { body: ready } = await server.call("GET", `/v1/people/ann/exports/${asked.id}`);
const url = String(ready.url);
const size = Number(ready.bytes);
const get = (range: string, headers: Record<string, string> = {}) => fetch(url, { headers: { range, ...headers } });
const whole = Buffer.from(await (await fetch(url)).arrayBuffer());

const manyRanges = Array.from({ length: 1_000 }, (_, n) => `${n}-${n}`).join(",");
test.each([
  ["several", "bytes=0-0,5-9"],
  ["a thousand", `bytes=${manyRanges}`],
  ["the same over and over", `bytes=${"0-,".repeat(1_000)}0-`],
  ["backwards", "bytes=9-1"],
  ["negative", "bytes=-1-2"],
  ["no number", "bytes=a-b"],
  ["another unit", "rows=0-1"],
  ["nothing", "bytes=-"],
])("[18] ranges that are %s are the file once, and never more", async (_, range) => {
  const answer = await get(range);
  const body = Buffer.from(await answer.arrayBuffer());
  expect([answer.status, body.length, answer.headers.get("content-range")]).toEqual([200, size, null]);
  expect(body.equals(whole)).toBe(true);
});

test("[18] a range is cut to the file, and one outside of it is 416", async () => {
  const huge = "9".repeat(400);
  for (const [range, from, to] of [
    ["bytes=0-0", 0, 0],
    [`bytes=5-${huge}`, 5, size - 1],
    [`bytes=-${huge}`, 0, size - 1],
    ["bytes=-1", size - 1, size - 1],
  ] as const) {
    const answer = await get(range);
    expect([range.slice(0, 12), answer.status]).toEqual([range.slice(0, 12), 206]);
    expect(answer.headers.get("content-range")).toBe(`bytes ${from}-${to}/${size}`);
    expect(Buffer.from(await answer.arrayBuffer()).equals(whole.subarray(from, to + 1))).toBe(true);
  }
  for (const range of [`bytes=${size}-`, `bytes=${huge}-`, "bytes=-0"]) {
    const answer = await get(range);
    await answer.arrayBuffer();
    expect([range.slice(0, 12), answer.status, answer.headers.get("content-range")]).toEqual([
      ...[range.slice(0, 12), 416],
      `bytes */${size}`,
    ]);
  }
});

test("[18] a signed URL opens one file, and no file when it is changed, extended, or names a path", async () => {
  const { pathname, searchParams } = new URL(url);
  const query = searchParams.toString();
  const later = new URLSearchParams({ ...Object.fromEntries(searchParams), expires: "9999999999999" });
  const id = pathname.split("/").at(-1) ?? "";
  const traversals = [
    "..%2f..%2fstoa.db",
    "%2e%2e%2f%2e%2e%2fstoa.db",
    `${id}%2f..%2f..%2fstoa.db`,
    `${id}.tar`,
    `${id}%00`,
  ];
  const tried = [
    `${pathname}?${later}`,
    `${pathname}?expires=NaN&signature=${searchParams.get("signature")}`,
    `${pathname}?${query.replace(/signature=.{4}/, "signature=AAAA")}`,
    pathname,
    ...["exports", "recording-files", "storage"].flatMap((kind) =>
      traversals.map((name) => `/v1/${kind}/${name}?${query}`),
    ),
    // Signed for an export, and shown where other files are handed out.
    `/v1/recording-files/${id}?${query}`,
    `/v1/storage/${id}?${query}`,
  ];
  for (const path of tried) {
    const answer = await fetch(`${server.url}${path}`);
    const body = Buffer.from(await answer.arrayBuffer());
    expect([path.slice(0, 40), [400, 403, 404].includes(answer.status)]).toEqual([path.slice(0, 40), true]);
    expect(body.includes("SQLite format 3")).toBe(false);
  }
});

test("[18] forged replay links and playlist URLs open nothing, and each costs the same", async () => {
  const forged = Buffer.from("rec_1.9999999999999.AAAA").toString("base64url");
  for (const path of [
    `/v1/replays/${forged}`,
    `/v1/replays/${"A".repeat(600)}`,
    "/v1/replays/..%2f..%2fetc%2fpasswd",
    "/v1/live-streams/x/hls/guess/video.m3u8",
    "/v1/live-streams/x/hls/..%2f..%2f/video-0.m4s",
    "/v1/live-streams/x/hls/guess/..%2f..%2fstoa.db",
    `/v1/live-streams/x/hls/guess/video-${"9".repeat(300)}.m4s`,
    "/v1/live-streams/x/hls/guess/video.m3u8?_HLS_msn=99999999999",
    "/v1/live-streams/x/hls/index.m3u8?token=not.a.token",
  ]) {
    const { status } = await fetch(`${server.url}${path}`);
    expect([path.slice(0, 50), status >= 400 && status < 500]).toEqual([path.slice(0, 50), true]);
  }
});
