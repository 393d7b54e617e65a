import { afterAll, beforeAll, expect, test } from "bun:test";
import { DisconnectReason, LeaveRequest_Action, ParticipantInfo_State } from "@livekit/protocol";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(() => stage.close());

test("away longer than the server waits: others hear of it, a resume is refused with a word, and a new join is let in", async () => {
  const watcher = await RawClient.open(stage.wsUrl, await stage.token("away", "watcher"));
  const token = await stage.token("away", "ann");
  const ann = await RawClient.open(stage.wsUrl, token);
  const sid = (await ann.hears("join")).participant?.sid ?? "";
  ann.close();
  await watcher.hears("update", ({ participants }) =>
    participants.some((one) => one.sid === sid && one.state === ParticipantInfo_State.DISCONNECTED),
  );
  const refused = await RawClient.open(stage.wsUrl, token, `&reconnect=1&sid=${sid}`);
  expect(refused.heard.map((one) => one.case)).toEqual(["leave"]);
  const { reason, action, canReconnect } = await refused.hears("leave");
  expect([reason, action, canReconnect]).toEqual([
    DisconnectReason.STATE_MISMATCH,
    LeaveRequest_Action.RECONNECT,
    true,
  ]);
  await refused.isClosed();
  const anew = await RawClient.open(stage.wsUrl, token);
  const { participant } = await anew.hears("join");
  expect(participant?.sid).not.toBe(sid);
  const there = (await stage.rooms.listParticipants("away")) as { identity: string; sid: string }[];
  expect(there.filter(({ identity }) => identity === "ann")).toMatchObject([{ sid: participant?.sid }]);
  for (const one of [anew, watcher]) one.close();
}, 180_000);
