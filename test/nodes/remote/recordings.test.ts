/** Rooms on media nodes, recorded there: what becomes of the files. */
import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Recording } from "../../../src/protocol/recordings.ts";
import { Fleet } from "./fleet-of-processes.ts";
import { until } from "./until.ts";

const LONG = 180_000;
const EBML = [0x1a, 0x45, 0xdf, 0xa3];
let fleet: Fleet | null = null;
let folder = "";

afterEach(async () => {
  await fleet?.close();
  fleet = null;
  rmSync(folder, { recursive: true, force: true });
});

/** A room on a node, a participant who sends, and a partly written recording. */
async function recorded() {
  const made = await Fleet.startOnLoopback();
  fleet = made;
  folder = mkdtempSync(join(tmpdir(), "stoa-node-recordings-"));
  const start = () => made.node("eu1", "eu", "--recording-dir", folder);
  const node = await start();
  const roomId = await made.room("eu");
  const ada = await made.member(roomId, "ada");
  expect(ada.client.ack?.serverName).toBe("eu1");
  await ada.publish();
  const { id } = await made.call("POST", `/v1/rooms/${roomId}/recordings`, {});
  const read = async () => (await made.call("GET", `/v1/recordings/${id}`)) as unknown as Recording;
  await until(async () => ((await read()).files[0]?.bytes ?? 0) > 1_000);
  const download = async (): Promise<Response> => {
    const { id: fileId } = (await read()).files[0] ?? {};
    const { url = "" } = await made.call("GET", `/v1/recordings/${id}/files/${fileId}/download-url`);
    return fetch(url.replace(/^https?:\/\/[^/]+/, made.url));
  };
  /** The whole file, once it is there; what a node wrote begins as every WebM does. */
  const downloaded = async (): Promise<Uint8Array> => {
    const response = await until(async () => {
      const answer = await download();
      if (answer.status === 200) return answer;
      expect(answer.status).toBe(503);
      return false;
    });
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect([...bytes.slice(0, 4)]).toEqual(EBML);
    return bytes;
  };
  const stop = async () => (await made.call("POST", `/v1/recordings/${id}/stop`)) as unknown as Recording;
  return { fleet: made, node, start, ada, roomId, read, stop, download, downloaded };
}

test(
  "[18] what a media node records is brought to the server, and nothing stays on the node",
  async () => {
    const { stop, downloaded } = await recorded();
    const { status, error, files } = await stop();
    expect({ status, error }).toEqual({ status: "READY", error: null });
    expect(files).toMatchObject([{ identity: "ada", codec: "vp8", mimeType: "video/webm", width: 640 }]);
    expect(await downloaded()).toHaveLength(files[0]?.bytes ?? -1);
    await until(() => readdirSync(folder).length === 0);
  },
  LONG,
);

test(
  "[18] a media node is killed while it records: the record shows it, and its file comes when it is back",
  async () => {
    const { node, start, stop, download, downloaded, read } = await recorded();
    node.child.kill("SIGKILL");
    await node.child.exited;
    const stopped = await stop();
    expect(stopped).toMatchObject({ status: "INTERRUPTED", files: [{ identity: "ada" }] });
    expect(stopped.error).toContain("eu1");
    expect((await download()).status).toBe(503);
    await start();
    const bytes = await downloaded();
    expect(bytes.length).toBeGreaterThan(1_000);
    expect((await read()).files[0]?.bytes).toBe(bytes.length);
    await until(() => readdirSync(folder).length === 0);
  },
  LONG,
);

test(
  "[18] the server is killed while a media node records: the node stops, and all it wrote arrives",
  async () => {
    const { fleet, downloaded, read, ada } = await recorded();
    await fleet.stopServer("SIGKILL");
    const written = () => readdirSync(join(folder, readdirSync(folder)[0] ?? "")).length;
    expect(written()).toBe(1);
    await Promise.all([fleet.startServer(), ada.resume()]);
    const found = await read();
    expect(found).toMatchObject({ status: "INTERRUPTED", files: [{ identity: "ada" }] });
    expect(await downloaded()).toHaveLength((await read()).files[0]?.bytes ?? -1);
    await until(() => readdirSync(folder).length === 0);
  },
  LONG,
);
