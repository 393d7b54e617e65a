/** What a tenant can do to others with the outputs of its live compositions. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RoomCompositeEgressRequest, TrackEgressRequest } from "@livekit/protocol";
import type { Encoding } from "../../src/features/egress/compositor/messages.ts";
import type { EgressRow } from "../../src/features/egress/egress.table.ts";
import { planOutput } from "../../src/features/egress/output-plan.ts";
import { UploadRefused, uploadFolder } from "../../src/features/egress/uploads.ts";
import type { RoomRow } from "../../src/features/rooms/room.table.ts";
import { targetRule } from "../../src/features/webhooks/url-check.ts";
import { storedRequest } from "../../src/gateways/livekit/server-api/egress-info.ts";
import { outputsOf, redact } from "../../src/gateways/livekit/server-api/egress-request.ts";
import { systemLookup } from "../../src/kernel/net/targets.ts";
import { type TestServer, testServer } from "../harness/server.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-hostile-egress-"));
writeFileSync(join(folder, "film.mp4"), "film");

/** What the hostile bucket has sent, and which paths were requested from it. */
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
      bucket: to,
      endpoint,
      region: "us-east-1",
      accessKeyId: "key",
      secretAccessKey: "very-secret",
      sessionToken: null,
      virtualHostedStyle: false,
    },
    targetRule("PRODUCTION", isPrivateAllowed, false),
  ).then(
    () => "taken",
    (error: Error) => error,
  );

test("a bucket whose response never ends is refused, and the connection is closed", async () => {
  const error = await upload("endless");
  expect(error).toBeInstanceOf(UploadRefused);
  expect((error as Error).message).toBe("It answered 403.");
  await bucket.cancelled.promise;
  expect(bucket.sent).toBeLessThan(16 * 1_024 * 1_024);
});

test("redirects of a bucket are not followed, and a bucket in a private network gets no request", async () => {
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

test("the stored request contains no credential and no stream key", () => {
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

describe("the limits of egresses are per tenant", () => {
  const programs = mkdtempSync(join(tmpdir(), "stoa-hostile-programs-"));
  writeFileSync(join(programs, "ffmpeg"), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  const { PATH } = process.env;
  const root = join(programs, "egress");
  let stoa: TestServer;
  beforeAll(() => {
    process.env.PATH = `${programs}:${PATH}`;
    stoa = testServer({
      EGRESS_DIR: root,
      EGRESS_MAX_RUNNING: 6,
      EGRESS_MAX_PER_PROJECT: 3,
      EGRESS_MAX_BYTES_PER_PROJECT: 1_000,
      RECORDING_MIN_FREE_BYTES: 0,
    });
  });
  afterAll(async () => {
    await stoa.close();
    process.env.PATH = PATH;
    rmSync(programs, { recursive: true });
  });

  const AUTHOR = { actor: null, request: null, environment: "PRODUCTION" } as const;
  const roomOf = async ({ key }: { key: string }) => {
    const { body } = await stoa.call("POST", "/v1/rooms", { key, body: { name: `r-${crypto.randomUUID()}` } });
    return stoa.services.rooms.byId(String(body.id)) as RoomRow;
  };
  const start = (room: RoomRow, path: string) =>
    stoa.services.egresses
      .start(
        room,
        {
          source: { type: "room" },
          layout: "grid",
          encoding: {} as Encoding,
          words: {},
          request: "{}",
          outputs: [{ kind: "file", path, format: "mp4", bucket: null }],
        },
        AUTHOR,
      )
      .then(
        (row) => row.status,
        ({ code }: { code: string }) => code,
      );

  test("a live composition has at most ten outputs, even with simultaneous requests", async () => {
    const room = await roomOf(await stoa.project());
    expect(await start(room, "show")).toBe("STARTING");
    const { egresses } = stoa.services;
    const shown = () => egresses.list(room)[0] as EgressRow;
    const add = (key: number) =>
      egresses
        .updateStreams(shown(), [`rtmp://93.184.215.14/live/key-${key}`], [], AUTHOR)
        .then(() => "added")
        .catch(({ code }: { code: string }) => code);
    const outcomes = await Promise.all(Array.from({ length: 20 }, (_, n) => add(n)));
    expect(outcomes.filter((outcome) => outcome === "added")).toHaveLength(9);
    expect(outcomes.filter((outcome) => outcome === "SVC_VALIDATION_FAILED")).toHaveLength(11);
    expect(shown().outputs).toHaveLength(10);
  });

  test("a tenant whose files have reached the limit starts no egress until it removes files", async () => {
    const full = await roomOf(await stoa.project());
    const films = join(root, full.projectId, "production");
    mkdirSync(films, { recursive: true });
    writeFileSync(join(films, "film.mp4"), Buffer.alloc(1_000));
    expect(await start(full, "more")).toBe("SVC_STORAGE_FULL");
    rmSync(join(films, "film.mp4"));
    expect(await start(full, "more")).toBe("STARTING");
  });

  test("one tenant cannot use up all egresses, even with simultaneous requests, and no two write the same file", async () => {
    const [mine, others] = [await roomOf(await stoa.project()), await roomOf(await stoa.project())];
    const same = await Promise.all([start(mine, "same"), start(mine, "same")]);
    expect(same.sort()).toEqual(["STARTING", "SVC_CONFLICT"]);
    const many = await Promise.all(Array.from({ length: 10 }, (_, n) => start(mine, `film-${n}`)));
    expect(many.filter((outcome) => outcome === "STARTING")).toHaveLength(2);
    expect(many.filter((outcome) => outcome === "SVC_RATE_LIMITED")).toHaveLength(8);
    expect(await start(others, "film")).toBe("STARTING");
    expect(await start(others, "film-2")).toBe("SVC_RATE_LIMITED");
  });
});
