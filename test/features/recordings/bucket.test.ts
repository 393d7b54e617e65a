/** Recordings in a bucket: how files get there, are read from there, and go. */
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { rtcServer, settled, until } from "../../harness/rtc.ts";
import { type S3Credentials, s3TestServer } from "../storage/s3-server.ts";
import { encoded } from "./ffmpeg.ts";

const MIB = 1024 * 1024;
const credentials: S3Credentials = {
  accessKeyId: "AKTEST",
  secretAccessKey: "a/secret+with=signs",
  region: "eu-west-3",
  bucket: "films",
};
const s3 = s3TestServer(credentials);
const bucket = {
  STORAGE_S3_ENDPOINT: s3.endpoint,
  STORAGE_S3_BUCKET: credentials.bucket,
  STORAGE_S3_REGION: credentials.region,
  STORAGE_S3_ACCESS_KEY_ID: credentials.accessKeyId,
  STORAGE_S3_SECRET_ACCESS_KEY: credentials.secretAccessKey,
};
const server = await rtcServer(bucket);
afterAll(async () => {
  await server.close();
  await s3.stop();
});
beforeEach(() => {
  s3.failing = false;
  s3.onPart = null;
});

const call = (method: string, path: string, body?: object) => server.call(method, path, { key: server.key, body });
const { locations } = server.services.recordings;

/** A recording that has ended, with one file of this size; the bucket is still empty. */
async function recorded(bytes: number, identity = "ada") {
  const roomId = await server.room();
  const visitor = await server.joined(roomId, identity);
  const id = String((await call("POST", `/v1/rooms/${roomId}/recordings`, {})).body.id);
  await settled();
  const row = server.runtime.db.$client.query<{ id: string }, [string]>(
    "SELECT id FROM recordings WHERE public_id = ?",
  );
  const recordingId = row.get(id)?.id ?? "";
  const fileId = crypto.randomUUID();
  const folder = join(server.runtime.config.DATA_DIR, "recordings", recordingId);
  // All parts of the content differ.
  const content = new Uint8Array(Buffer.alloc(bytes, randomBytes(65_537)));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${fileId}.webm`), content);
  const file: RecordedFile = {
    fileId,
    fileName: `${fileId}.webm`,
    identity,
    trackId: "trk_1",
    kind: "video",
    source: "camera",
    codec: "vp8",
    mimeType: "video/webm",
    offsetMs: 0,
    durationMs: 1_000,
    bytes,
    width: 640,
    height: 360,
  };
  const about = { roomId, recordingId, file };
  server.node.emit({ type: "recordingFileStarted", ...about });
  await settled();
  const end = () => server.node.emit({ type: "recordingFileEnded", ...about });
  return {
    id,
    roomId,
    recordingId,
    fileId,
    folder,
    content,
    visitor,
    end,
    key: `recordings/${recordingId}/${fileId}.webm`,
  };
}

const stop = (id: string) => call("POST", `/v1/recordings/${id}/stop`);
const read = async (id: string) => (await call("GET", `/v1/recordings/${id}`)).body as unknown as Recording;
const address = async (id: string, fileId: string) =>
  String((await call("GET", `/v1/recordings/${id}/files/${fileId}/download-url`)).body.url);
const get = (url: string, headers: Record<string, string> = {}, method = "GET") =>
  server.app.handle(new Request(url, { headers, method }));

describe("[18] with a bucket, recordings", () => {
  test("ended recordings move from the disk to the bucket, and keep their addresses", async () => {
    const { id, fileId, folder, key, content } = await recorded(1_000);
    const before = await address(id, fileId);
    expect(s3.objects.has(key)).toBe(false);
    await stop(id);
    await locations.moveFiles();
    expect(s3.objects.get(key)).toMatchObject({ bytes: content, type: "video/webm" });
    expect(readdirSync(folder)).toEqual([]);
    expect(await read(id)).toMatchObject({ status: "READY", bytes: 1_000, files: [{ id: fileId, bytes: 1_000 }] });

    for (const url of [before, await address(id, fileId)]) {
      const redirect = await get(url);
      expect(redirect.status).toBe(307);
      const location = redirect.headers.get("location") ?? "";
      expect(location).toStartWith(`${s3.endpoint}/films/recordings/`);
      expect(location).not.toContain(credentials.secretAccessKey);
      const whole = await fetch(location);
      expect([whole.headers.get("content-type"), new Uint8Array(await whole.arrayBuffer())]).toEqual([
        "video/webm",
        content,
      ]);
      const part = await fetch(location, { headers: { range: "bytes=10-19" } });
      expect([part.status, new Uint8Array(await part.arrayBuffer())]).toEqual([206, content.slice(10, 20)]);
    }
    const head = await get(before, {}, "HEAD");
    expect([head.status, head.headers.get("etag")]).toEqual([200, `"${fileId}-1000"`]);

    expect((await call("DELETE", `/v1/recordings/${id}`)).status).toBe(204);
    expect(s3.objects.has(key)).toBe(false);
    expect((await get(before)).status).toBe(403);
  });

  test("large files are uploaded in parts, and continue with the missing part after a restart", async () => {
    const { id, key, content, folder } = await recorded(40 * MIB);
    const taken: number[] = [];
    s3.onPart = (number) => {
      taken.push(number);
      return number === 3 ? 500 : 200;
    };
    await stop(id);
    await locations.moveFiles();
    expect(taken).toContain(3);
    expect(s3.objects.has(key)).toBe(false);
    expect(readdirSync(folder)).toHaveLength(1);
    taken.length = 0;
    s3.onPart = (number) => {
      taken.push(number);
      return 200;
    };
    // Another process: all it knows is in the database.
    const { createStorageLocations } = await import(
      "../../../src/features/recordings/storage-locations/storage-locations.ts"
    );
    const { recordingStore } = await import("../../../src/features/recordings/recording.store.ts");
    const { recordingFolder } = await import("../../../src/features/recordings/recording-folder.ts");
    const { removals, storages } = server.services.attachments;
    const store = recordingStore(server.runtime.db);
    const parts = { store, folder: recordingFolder(server.runtime.config), storages, removals };
    await createStorageLocations(server.runtime, { ...parts, nodes: { find: () => null } }).moveFiles();
    expect(taken).toEqual([3]);
    expect(Buffer.compare(s3.objects.get(key)?.bytes ?? new Uint8Array(), content)).toBe(0);
    expect(readdirSync(folder)).toEqual([]);
    expect(s3.uploads.size).toBe(0);
  });

  test("an upload that the bucket dropped begins again", async () => {
    const { id, key } = await recorded(33 * MIB);
    s3.onPart = (number) => (number === 2 ? 500 : 200);
    await stop(id);
    await locations.moveFiles();
    s3.uploads.clear();
    s3.onPart = null;
    await locations.moveFiles();
    await locations.moveFiles();
    expect(s3.objects.get(key)?.bytes).toHaveLength(33 * MIB);
  });

  test("files stay on the disk and readable while the bucket does not respond", async () => {
    s3.failing = true;
    const { id, fileId, folder, key } = await recorded(500);
    await stop(id);
    await locations.moveFiles();
    expect(readdirSync(folder)).toHaveLength(1);
    const url = await address(id, fileId);
    expect((await get(url)).status).toBe(200);
    s3.failing = false;
    await locations.moveFiles();
    expect([s3.objects.has(key), (await get(url)).status]).toEqual([true, 307]);
  });

  test("files that are deleted while the bucket does not respond are removed from it later", async () => {
    const { id, key } = await recorded(500);
    await stop(id);
    await locations.moveFiles();
    s3.failing = true;
    expect((await call("DELETE", `/v1/recordings/${id}`)).status).toBe(204);
    expect(s3.objects.has(key)).toBe(true);
    s3.failing = false;
    await server.services.attachments.removals.run();
    expect(s3.objects.has(key)).toBe(false);
  });

  test("files that are deleted during their upload leave neither parts nor objects", async () => {
    const { id, key, folder } = await recorded(40 * MIB);
    const second = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    s3.onPart = async (number) => {
      if (number === 2) {
        second.resolve();
        await released.promise;
      }
      return 200;
    };
    await stop(id);
    await second.promise;
    const deleted = call("DELETE", `/v1/recordings/${id}`);
    expect((await deleted).status).toBe(204);
    released.resolve();
    await locations.moveFiles();
    expect([s3.uploads.size, s3.objects.has(key), existsSync(folder)]).toEqual([0, false, false]);
  });

  test("a composition reads from the bucket and is uploaded to it", async () => {
    const { id, folder, key, recordingId } = await recorded(1_000);
    await stop(id);
    await locations.moveFiles();
    s3.objects.set(key, { bytes: encoded("webm", 1, "-c:v", "libvpx"), type: "video/webm" });
    const small = { layout: "grid", width: 160, height: 120 };
    expect((await call("POST", `/v1/recordings/${id}/composition`, small)).status).toBe(202);
    while ((await read(id)).composition?.status === "RUNNING") await Bun.sleep(20);
    const { composition } = await read(id);
    expect(composition).toMatchObject({ status: "READY" });
    await locations.moveFiles();
    expect(readdirSync(folder)).toEqual([]);
    const film = `recordings/${recordingId}/${composition?.fileId}.mp4`;
    expect(s3.objects.get(film)?.type).toBe("video/mp4");
    expect((await call("DELETE", `/v1/recordings/${id}/composition`)).status).toBe(204);
    expect([s3.objects.has(film), s3.objects.has(key)]).toEqual([false, true]);
  }, 60_000);

  test("an erasure removes the tracks of the user, including those of a running recording", async () => {
    const done = await recorded(700, "eve");
    await stop(done.id);
    const kept = await recorded(700, "bob");
    await stop(kept.id);
    await locations.moveFiles();
    const running = await recorded(700, "eve");
    expect([s3.objects.has(done.key), s3.objects.has(kept.key)]).toEqual([true, true]);

    const erased = await call("DELETE", "/v1/people/eve");
    expect(erased.status).toBe(202);
    // Sent away, and still being written: nothing is finished before the file is.
    await until(() => running.visitor.closed !== null);
    await settled();
    const files = (recordingId: string) =>
      server.runtime.db.$client.query("SELECT id FROM recording_files WHERE recording_id = ?").all(recordingId).length;
    expect(files(running.recordingId)).toBe(1);
    running.end();
    await server.services.privacy.erasures.settled();
    expect([files(running.recordingId), files(done.recordingId), files(kept.recordingId)]).toEqual([0, 0, 1]);
    expect([s3.objects.has(done.key), s3.objects.has(kept.key)]).toEqual([false, true]);
    expect(readdirSync(running.folder)).toEqual([]);
    expect(await read(done.id)).toMatchObject({ status: "READY", files: [] });
  });
});
