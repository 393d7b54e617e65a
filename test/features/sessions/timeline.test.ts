import { afterAll, expect, test } from "bun:test";
import { rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { clock, key, node } = server;
const session = await server.session({ projectId: server.projectId, role: "VIEWER" });

type Entry = { atMs: number; type: string; identity?: string; [more: string]: unknown };
const read = async <T>(path: string, credential = key) =>
  JSON.parse((await server.call("GET", path, { key: credential })).text) as T;

test("[17] the timeline of a call has joins, tracks, quality, errors and messages", async () => {
  const roomId = await server.room();
  const members = [{ userId: "ada" }, { userId: "edsger" }];
  const made = await server.call("POST", "/v1/chat/conversations", { key, body: { name: "beside", roomId, members } });
  const { token } = await server.mint(roomId, "ada");
  const ada = server.connect(token);
  await ada.join({ connectionId: "ada-1" });
  const participantId = node.peers().find(({ identity }) => identity === "ada")?.participantId ?? "";
  node.connect(participantId);
  await settled();
  const subject = { roomId, participantId, identity: "ada" };

  clock.advance(1_000);
  node.emit({ ...subject, type: "qualityChanged", quality: "poor" });
  clock.advance(1_000);
  const track = { id: "t1", kind: "video", source: "screenShare", name: null } as const;
  const published = { ...track, muted: false, simulcast: false, codec: "VP8" };
  node.emit({ ...subject, type: "trackPublished", track: published });
  clock.advance(1_000);
  const words = { text: "can you see it?", senderId: "edsger" };
  await server.call("POST", `/v1/chat/conversations/${made.body.id}/messages`, { key, body: words });
  clock.advance(1_000);
  const error = { connectionId: "ada-1", type: "error", data: { code: "NotReadableError" } };
  await server.call("POST", "/v1/telemetry/events", { key: token, body: error });
  const limited = { limitation: "cpu", seconds: 4 };
  const told = { connectionId: "ada-1", type: "participant_connection_quality_changed", data: limited };
  await server.call("POST", "/v1/telemetry/events", { key: token, body: told });
  clock.advance(1_000);
  await ada.ask("room.leave");
  await settled();
  await server.services.rtcSessions.recorder.flush();

  const [call] = await read<{ id: string; minutes: number }[]>("/v1/calls?connectionId=ada-1");
  expect(call?.minutes).toBe(1);
  expect(await read<unknown[]>("/v1/calls?connectionId=nobody")).toEqual([]);
  const timeline = await read<Entry[]>(`/v1/calls/${call?.id}/timeline`);
  expect(timeline.map(({ atMs, type }) => [atMs, type])).toEqual([
    [0, "participant.joined"],
    [1_000, "quality.changed"],
    [2_000, "track.published"],
    [3_000, "message"],
    [4_000, "encoder.limited"],
    [4_000, "error"],
    [5_000, "participant.left"],
  ]);
  expect(timeline[1]).toMatchObject({ identity: "ada", connectionId: "ada-1", quality: "poor" });
  expect(timeline[2]).toMatchObject({ source: "screenShare", trackId: "t1" });
  expect(timeline[3]).toMatchObject({ senderId: "edsger", text: "can you see it?" });
  expect(timeline[5]).toMatchObject({ category: "CLIENT_ERROR", code: "NotReadableError" });
  expect(timeline[6]).toMatchObject({ reason: "left" });

  // With a session the timeline is the same, without texts of users.
  const bySession = await read<Entry[]>(
    `/v1/projects/${server.projectId}/calls/${call?.id}/timeline?environment=DEVELOPMENT`,
    session.token,
  );
  expect(bySession).toHaveLength(timeline.length);
  expect(JSON.stringify(bySession)).not.toContain("can you see it?");

  const elsewhere = await server.project();
  const refused = await server.call("GET", `/v1/calls/${call?.id}/timeline`, { key: elsewhere.key });
  expect([refused.status, refused.body.code]).toEqual([404, "SVC_CALL_NOT_FOUND"]);
});
