import { afterAll, expect, test } from "bun:test";
import { rtcServer } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const call = (method: string, path: string, body?: object) => server.call(method, path, { key: server.key, body });

const RECORDINGS = 6;
const FILES = 2_500;

test("[18] recordings with thousands of files are listed in pages of 2 MiB, complete and in order", async () => {
  const roomId = await server.room("many");
  const ids: string[] = [];
  const client = server.runtime.db.$client;
  for (let n = 0; n < RECORDINGS; n++) {
    const { body } = await call("POST", `/v1/rooms/${roomId}/recordings`, {});
    ids.unshift(String(body.id));
    await call("POST", `/v1/recordings/${body.id}/stop`);
    server.clock.advance(1_000);
    await server.runtime.write(() => {
      const insert = client.prepare(
        `INSERT INTO recording_files (recording_id, id, file_name, identity, track_id, kind, source, codec, mime_type,
           offset_ms, duration_ms, bytes, location)
         SELECT id, ?1, ?1 || '.webm', 'eve', ?1, 'video', 'camera', 'vp8', 'video/webm', 0, 10, 700, 'disk'
         FROM recordings WHERE public_id = ?2`,
      );
      for (let file = 0; file < FILES; file++) insert.run(crypto.randomUUID(), String(body.id));
    });
  }
  const listed: string[] = [];
  const sizes: number[] = [];
  for (let next: string | undefined = "/v1/recordings"; next !== undefined; ) {
    const reply = await call("GET", next);
    const page = JSON.parse(reply.text) as { id: string; files: object[] }[];
    expect(page.every(({ files }) => files.length === FILES)).toBe(true);
    listed.push(...page.map(({ id }) => id));
    sizes.push(Buffer.byteLength(reply.text));
    next = /<([^>]+)>; rel="next"/.exec(reply.headers.get("link") ?? "")?.[1];
  }
  expect(listed).toEqual(ids);
  expect(sizes.length).toBeGreaterThan(1);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * 1024 * 1024);
});
