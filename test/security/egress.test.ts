/** What a tenant can do to others with the outputs of its live compositions. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RoomCompositeEgressRequest, TrackEgressRequest } from "@livekit/protocol";
import { planOutput } from "../../src/features/egress/output-plan.ts";
import { UploadRefused, uploadFolder } from "../../src/features/egress/uploads.ts";
import { targetRule } from "../../src/features/webhooks/url-check.ts";
import { storedRequest } from "../../src/gateways/livekit/server-api/egress-info.ts";
import { outputsOf, redact } from "../../src/gateways/livekit/server-api/egress-request.ts";
import { systemLookup } from "../../src/kernel/net/targets.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-hostile-egress-"));
writeFileSync(join(folder, "film.mp4"), "film");

/** What the hostile bucket has sent, and what was asked of it. */
const bucket = { sent: 0, paths: [] as string[], cancelled: Promise.withResolvers<void>() };
const PART = Buffer.alloc(64 * 1_024, "x");
const endless = () =>
  new ReadableStream({
    pull(controller) {
      bucket.sent += PART.length;
      controller.enqueue(PART);
    },
    cancel: () => bucket.cancelled.resolve(),
  });
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const { pathname } = new URL(request.url);
    bucket.paths.push(pathname);
    if (pathname.startsWith("/redirects")) return Response.redirect("http://127.0.0.1:1/latest/meta-data");
    return new Response(endless(), { status: 403 });
  },
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true });
});

const upload = (to: string, isPrivateAllowed = true, endpoint = `http://127.0.0.1:${server.port}`) =>
  uploadFolder(
    { fetch, lookup: systemLookup },
    folder,
    {
      ...{ bucket: to, endpoint, region: "us-east-1", accessKeyId: "key", secretAccessKey: "very-secret" },
      ...{ sessionToken: null, virtualHostedStyle: false },
    },
    targetRule("PRODUCTION", isPrivateAllowed, false),
  ).then(
    () => "taken",
    (error: Error) => error,
  );

test("a bucket whose answer has no end is refused, and its connection closed", async () => {
  const error = await upload("endless");
  expect(error).toBeInstanceOf(UploadRefused);
  expect((error as Error).message).toBe("It answered 403.");
  await bucket.cancelled.promise;
  expect(bucket.sent).toBeLessThan(16 * 1_024 * 1_024);
});

test("a bucket that redirects leads nowhere, and one in a private network gets no request", async () => {
  expect(await upload("redirects")).toBeInstanceOf(UploadRefused);
  const before = bucket.paths.length;
  const endpoints = [
    `http://127.0.0.1:${server.port}`,
    `http://[::ffff:7f00:1]:${server.port}`,
    "http://169.254.169.254",
    "file:///etc",
  ];
  for (const endpoint of endpoints)
    expect([endpoint, await upload("x", false, endpoint)]).not.toEqual([endpoint, "taken"]);
  expect(bucket.paths).toHaveLength(before);
});

test("a stream's URL reaches ffmpeg as it was checked, without breaks and spaces", async () => {
  const context = { folder, uploads: folder, words: {}, newId: () => "id" };
  const url = "rtmp://live.example.com/app/ke\ny swfUrl=http://10.0.0.1/ -y\t/etc/passwd";
  const { target } = await planOutput(
    { kind: "stream", url },
    { ...context, lookup: async () => ["93.184.215.14"], allows: targetRule("PRODUCTION", false, false) },
  );
  expect(target).toMatchObject({ url: "rtmp://live.example.com/app/key%20swfUrl=http://10.0.0.1/%20-y/etc/passwd" });
});

test("no credential and no stream key is kept with a request", () => {
  const s3 = {
    case: "s3" as const,
    value: { accessKey: "AKIASECRET", secret: "s3cr3t-a", sessionToken: "s3cr3t-b", bucket: "b" },
  };
  const urls = ["rtmp://x.com/live/s3cr3t-c", "srt://x.com:9000?passphrase=s3cr3t-d&streamid=s3cr3t-e"];
  const room = new RoomCompositeEgressRequest({
    roomName: "r",
    output: { case: "stream", value: { urls } },
    fileOutputs: [{ filepath: "a", output: s3 }],
    segmentOutputs: [{ filenamePrefix: "b", output: s3 }],
    streamOutputs: [{ urls }],
  } as never);
  const track = new TrackEgressRequest({
    roomName: "r",
    output: { case: "file", value: { filepath: "a", output: s3 } },
  } as never);
  expect(outputsOf(room, { hasVideo: true, hasAudio: true })).toHaveLength(4);
  for (const [name, request] of [
    ["roomComposite", room],
    ["track", track],
  ] as const) {
    redact(request);
    expect(storedRequest(name, request)).not.toMatch(/s3cr3t|AKIASECRET/);
  }
});
