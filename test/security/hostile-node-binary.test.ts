// suite: all
/** A media node with a genuine key against the compiled binary: it names files, and answers for them as it likes. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Member } from "../nodes/remote/member.ts";
import { until } from "../nodes/remote/until.ts";
import { type AttackedServer, type AttackedTenant, attackedServer } from "./attacked-server.ts";
import { HostileNode } from "./hostile-node.ts";

const LONG = 60_000;
let server: AttackedServer;
let tenant: AttackedTenant;
let rogue: HostileNode;
let secret = "";
let members: Member[] = [];
const inside: string[] = [];
/** A service of the server's own network. */
const internal = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch({ url }) {
    inside.push(url);
    return new Response("internal", { status: 206, headers: { "content-range": "bytes 0-7/8" } });
  },
});

beforeAll(async () => {
  server = await attackedServer({ env: { SFU_HEARTBEAT_TIMEOUT_SECONDS: "3600" } });
  tenant = await server.tenant("recorded");
  const created = JSON.parse(await server.run(["node-keys", "create", "rogue", "--json"])) as { secret: string };
  rogue = await HostileNode.register({ url: server.url, name: "rogue", secret: created.secret });
  secret = readFileSync(join(server.dataDir, "secret"), "utf8");
}, 240_000);
beforeEach(() => {
  for (const member of members) member.close();
  members = [];
});
afterAll(async () => {
  for (const member of members) member.close();
  await rogue.close();
  await internal.stop(true);
  await server.stop();
});

/** A recording that the node was asked to make, with ada in its room. */
async function recorded() {
  const { id: roomId } = (await tenant.call("POST", "/v1/rooms", { name: crypto.randomUUID(), region: "rogue" })).body;
  const member = new Member(server.url, (await tenant.mint(String(roomId), "ada")).token);
  members.push(member);
  expect((await member.join()).serverName).toBe("rogue");
  const { id } = (await tenant.call("POST", `/v1/rooms/${roomId}/recordings`, {})).body;
  const path = `/v1/recordings/${id}`;
  const asked = await until(() =>
    rogue.calls.findLast(({ method, request }) => method === "startRecording" && request.roomId === roomId),
  );
  const { recordingId } = asked.request;
  const files = async () => (await tenant.call("GET", path)).body.files as { id: string; status: string }[];
  const tell = (type: string, fileName: string, fileId: string = crypto.randomUUID()) => {
    const about = { trackId: "trk_1", kind: "audio", source: "microphone", codec: "opus", mimeType: "audio/webm" };
    const size = { offsetMs: 0, durationMs: 1_000, bytes: 8, width: null, height: null };
    rogue.tell({ type, roomId, recordingId, file: { fileId, fileName, identity: "ada", ...about, ...size } });
  };
  const download = async (fileId: string) => {
    const { body } = await tenant.call("GET", `${path}/files/${fileId}/download-url`);
    return typeof body.url === "string" ? (await fetch(body.url)).text() : JSON.stringify(body);
  };
  return { path, files, tell, download };
}

const NAMES = [
  "../../secret",
  "../secret",
  "..%2f..%2fsecret",
  "/etc/passwd",
  "..",
  "",
  "a/../../../secret",
  "secret\0.webm",
];

test(
  "files that a hostile node names elsewhere are neither read, written nor deleted",
  async () => {
    for (const answer of [
      new Response("gone", { status: 404 }),
      new Response("written", { status: 206, headers: { "content-range": "bytes 0-6/7" } }),
    ]) {
      rogue.files = () => answer.clone();
      const { path, files, tell } = await recorded();
      const before = readdirSync(server.dataDir).sort();
      for (const name of NAMES) {
        tell("recordingFileStarted", name);
        tell("recordingFileEnded", name);
      }
      const own = crypto.randomUUID();
      tell("recordingFileStarted", `${own}.webm`, own);
      // In the order of the socket: what came before has been read.
      await until(async () => (await files()).length > 0);
      expect((await files()).map(({ id }) => id)).toEqual([own]);
      await tenant.call("POST", `${path}/stop`);
      expect((await tenant.call("DELETE", path)).status).toBe(204);
      expect(rogue.requests.filter((line) => /secret|passwd/.test(line))).toEqual([]);
      expect(readFileSync(join(server.dataDir, "secret"), "utf8")).toBe(secret);
      expect(readdirSync(server.dataDir).filter((name) => !before.includes(name) && name !== "recordings")).toEqual([]);
    }
  },
  LONG,
);

test(
  "a file that a hostile node does not have is lost, whatever is on the server's disk",
  async () => {
    rogue.files = () => new Response("gone", { status: 404 });
    const { path, files, tell, download } = await recorded();
    const own = crypto.randomUUID();
    tell("recordingFileStarted", `${own}.webm`, own);
    await until(async () => (await files()).length > 0);
    tell("recordingFileEnded", `${own}.webm`, own);
    await tenant.call("POST", `${path}/stop`);
    await until(async () => (await files())[0]?.status === "LOST");
    expect(await download(own)).toContain("SVC_RECORDING_FILE_NOT_FOUND");
  },
  LONG,
);

test(
  "the server does not follow redirects of a hostile node",
  async () => {
    const targets = [`${internal.url}`, `file://${join(server.dataDir, "secret")}`];
    let asked = 0;
    rogue.files = () => new Response(null, { status: 307, headers: { location: targets[asked++ % 2] ?? "" } });
    const { path, files, tell, download } = await recorded();
    const own = crypto.randomUUID();
    tell("recordingFileStarted", `${own}.webm`, own);
    await until(async () => (await files()).length > 0);
    tell("recordingFileEnded", `${own}.webm`, own);
    await tenant.call("POST", `${path}/stop`);
    await until(() => asked > 0);
    for (let n = 0; n < 4; n++) expect(await download(own)).not.toContain(secret.trim());
    expect(inside).toEqual([]);
  },
  LONG,
);
