import { afterEach, describe, expect, test } from "bun:test";
import { type RtcServer, rtcServer, settled } from "../harness/rtc.ts";

let server: RtcServer;
afterEach(() => server.close());

async function start() {
  server = await rtcServer();
  const roomId = await server.room();
  const patch = (identity: string, body: object) =>
    server.call("PATCH", `/v1/rooms/${roomId}/participants/${identity}`, { key: server.key, body });
  return { roomId, patch };
}

describe("[contract 16] permissions that were taken away are not restored", () => {
  test("a second token that was minted earlier does not restore `publish`", async () => {
    const { roomId, patch } = await start();
    const spare = await server.mint(roomId, "mallory");
    await server.joined(roomId, "mallory");
    expect((await patch("mallory", { permissions: { publish: false } })).status).toBe(200);
    const back = server.connect(spare.token);
    expect((await back.join()).permissions).toMatchObject({ publish: false });
    const publish = [{ mid: "0", clientTrackId: "c", kind: "audio", source: "microphone" }];
    expect((await back.ask("media.offer", { sdp: "v=0", publish, subscribe: [] })).code).toBe("PERMISSION_DENIED");
    const whip = { key: spare.token, raw: "v=0", headers: { "content-type": "application/sdp" } };
    expect((await server.call("POST", `/whip/${roomId}`, whip)).status).toBe(403);
  });

  test("a socket that was opened before the change and joins afterwards does not restore permissions", async () => {
    const { roomId, patch } = await start();
    const { token } = await server.mint(roomId, "mallory");
    const waiting = server.connect(token);
    await settled();
    await server.joined(roomId, "mallory");
    await patch("mallory", { permissions: { publish: false, publishData: false } });
    expect((await waiting.join()).permissions).toMatchObject({ publish: false, publishData: false });
  });

  test("two simultaneous changes of a participant take both permissions away, from the live session too", async () => {
    const { roomId, patch } = await start();
    const mallory = await server.joined(roomId, "mallory");
    const changes = [{ publish: false }, { publishData: false }, { updateMetadata: false }];
    const answers = await Promise.all(changes.map((permissions) => patch("mallory", { permissions })));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const none = { publish: false, publishData: false, updateMetadata: false };
    expect(server.node.peers()).toMatchObject([{ permissions: none }]);
    expect(mallory.of("permissions.changed").at(-1)).toMatchObject({ permissions: none });
    const { body } = await server.call("GET", `/v1/rooms/${roomId}/participants`, { key: server.key });
    expect(body).toMatchObject([{ identity: "mallory", permissions: none }]);
    const publish = [{ mid: "0", clientTrackId: "c", kind: "audio", source: "microphone" }];
    expect((await mallory.ask("media.offer", { sdp: "v=0", publish, subscribe: [] })).code).toBe("PERMISSION_DENIED");
  });

  test("two simultaneous changes of a participant keep the attributes of both", async () => {
    const { roomId, patch } = await start();
    await server.joined(roomId, "mallory");
    const { node } = server;
    const { setPermissions } = node;
    const [asked, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    node.setPermissions = async (request) => {
      asked.resolve();
      await held.promise;
      return setPermissions(request);
    };
    const first = patch("mallory", { permissions: { publish: false }, attributes: { seat: "1" } });
    await asked.promise;
    node.setPermissions = setPermissions;
    await patch("mallory", { attributes: { team: "red" } });
    held.resolve();
    await first;
    const { body } = await server.call("GET", `/v1/rooms/${roomId}/participants`, { key: server.key });
    expect(body).toMatchObject([{ identity: "mallory", attributes: { seat: "1", team: "red" } }]);
  });

  test("a revoked `join` stays revoked until the room closes", async () => {
    const { roomId, patch } = await start();
    const spare = await server.mint(roomId, "mallory");
    await server.joined(roomId, "mallory");
    await patch("mallory", { permissions: { join: false } });
    const back = server.connect(spare.token);
    expect((await back.join()).code).toBe("PERMISSION_DENIED");
    const rows = () => server.runtime.db.$client.query("SELECT count(*) AS n FROM participant_permissions").get();
    expect(rows()).toEqual({ n: 1 });
    await server.call("DELETE", `/v1/rooms/${roomId}`, { key: server.key });
    expect(rows()).toEqual({ n: 0 });
  });
});

describe("[contract 16] clients cannot change what the backend signed", () => {
  test("metadata is replaced only with updateMetadata", async () => {
    const { roomId, patch } = await start();
    const mint = { permissions: { publish: true, publishData: true }, metadata: '{"role":"guest"}' };
    const mallory = await server.joined(roomId, "mallory", { mint });
    const watcher = await server.joined(roomId, "watcher");
    server.clock.advance(5_000);
    expect((await mallory.ask("participant.update", { metadata: '{"role":"admin"}' })).code).toBe("PERMISSION_DENIED");
    expect(watcher.of("participant.updated")).toEqual([]);
    await patch("mallory", { permissions: { updateMetadata: true } });
    expect((await mallory.ask("participant.update", { metadata: "mine" })).type).toBe("ack");
    expect(watcher.of("participant.updated").at(-1)).toMatchObject({ participant: { metadata: "mine" } });
  });

  test("an unknown permission gets 400 with the names of all permissions", async () => {
    const { roomId, patch } = await start();
    await server.joined(roomId, "ada");
    const body = { participantIdentity: "ada", permissions: { canPublish: true, publish: true } };
    const minted = await server.call("POST", `/v1/rooms/${roomId}/rtc-tokens`, { key: server.key, body });
    const changed = await patch("ada", { permissions: { can_publish: true } });
    for (const { status, body: answer } of [minted, changed]) {
      expect([status, answer.code]).toEqual([400, "SVC_VALIDATION_FAILED"]);
      const [problem] = answer.details as { field: string; message: string }[];
      expect(problem?.field).toMatch(/^permissions\.can_?[pP]ublish$/);
      expect(problem?.message).toContain("publish, publishAudio");
    }
  });
});
