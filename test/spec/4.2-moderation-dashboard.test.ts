import { afterAll, expect, test } from "bun:test";
import { rtcServer, until } from "../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { projectId, node } = server;
const { token: developer } = await server.session({ projectId, role: "DEVELOPER" });
const { token: viewer } = await server.session({ projectId, role: "VIEWER" });
const { token: outsider } = await server.session({ role: "OWNER" });

async function scene() {
  const roomId = await server.room();
  const ada = await server.joined(roomId, "ada");
  const offer = await ada.ask("media.offer", {
    sdp: "v=0",
    publish: [{ mid: "0", clientTrackId: "mic", kind: "audio", source: "microphone" }],
    subscribe: [],
  });
  node.connect(String(ada.ack.sessionId));
  const [{ trackId }] = offer.tracks as [{ trackId: string }];
  return { ada, trackId, path: `/v1/projects/${projectId}/rooms/${roomId}` };
}

test("[4.2] a developer mutes a track and removes a participant from the dashboard", async () => {
  const { ada, trackId, path } = await scene();
  const mute = { key: developer, body: { muted: true } };
  const muted = await server.call("POST", `${path}/participants/ada/tracks/${trackId}/mute`, mute);
  expect([muted.status, muted.body]).toEqual([200, expect.objectContaining({ id: trackId, muted: true })]);
  const shown = (await server.call("GET", path, { key: viewer })).body.participants as { tracks: object[] }[];
  expect(shown).toMatchObject([{ identity: "ada", quality: null, tracks: [{ id: trackId, muted: true }] }]);
  const open = { key: developer, body: { muted: false } };
  expect((await server.call("POST", `${path}/participants/ada/tracks/${trackId}/mute`, open)).status).toBe(400);

  expect((await server.call("DELETE", `${path}/participants/ada`, { key: developer })).status).toBe(204);
  await until(() => ada.closed !== null);
  expect((await server.call("GET", path, { key: viewer })).body.participants).toEqual([]);
  const nobody = await server.call("DELETE", `${path}/participants/nobody`, { key: developer });
  expect([nobody.status, nobody.body.code]).toEqual([404, "SVC_PARTICIPANT_NOT_FOUND"]);
});

test("[4.2] a VIEWER cannot moderate, and an outsider finds no room", async () => {
  const { ada, trackId, path } = await scene();
  for (const [key, code] of [
    [viewer, "SVC_PERMISSION_DENIED"],
    [outsider, "SVC_PROJECT_NOT_FOUND"],
  ] as const) {
    const mute = { key, body: { muted: true } };
    const replies = [
      await server.call("DELETE", `${path}/participants/ada`, { key }),
      await server.call("POST", `${path}/participants/ada/tracks/${trackId}/mute`, mute),
    ];
    expect(replies.map(({ body }) => body.code)).toEqual([code, code]);
  }
  const { token: elsewhere, projectId: other } = await server.session({ role: "OWNER" });
  const foreign = path.replace(projectId, other);
  const reply = await server.call("DELETE", `${foreign}/participants/ada`, { key: elsewhere });
  expect(reply.body.code).toBe("SVC_ROOM_NOT_FOUND");
  expect(ada.closed).toBeNull();
});
