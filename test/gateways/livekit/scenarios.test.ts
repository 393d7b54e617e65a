import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  DisconnectReason,
  LeaveRequest_Action,
  ParticipantInfo_Kind,
  RequestResponse_Reason,
  SimulateScenario,
} from "@livekit/protocol";
import { RawClient } from "./harness/raw-client.ts";
import { openStage, type Stage } from "./harness/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
}, 120_000);
afterAll(() => stage.close());

type Scenario = NonNullable<ConstructorParameters<typeof SimulateScenario>[0]>["scenario"];

async function joined(room: string, identity: string, options: object = {}) {
  const token = await stage.token(room, identity, options);
  const client = await RawClient.open(stage.wsUrl, token);
  const { participant, room: info } = await client.hears("join");
  const simulate = (scenario: Scenario) => client.send({ case: "simulate", value: new SimulateScenario({ scenario }) });
  const resume = () => RawClient.open(stage.wsUrl, token, `&reconnect=1&sid=${participant?.sid}`);
  return { client, participant, info, simulate, resume };
}

test("simulated failures end as the client expects: a resume, a new join, or the end", async () => {
  const migrated = await joined("simulated", "migrated");
  migrated.simulate({ case: "migration", value: true });
  await migrated.client.isClosed();
  await (await migrated.resume()).hears("reconnect");

  const failed = await joined("simulated", "failed");
  failed.simulate({ case: "nodeFailure", value: true });
  await failed.client.isClosed();
  expect((await (await failed.resume()).hears("leave")).action).toBe(LeaveRequest_Action.RECONNECT);

  const again = await joined("simulated", "again");
  again.simulate({ case: "leaveRequestFullReconnect", value: true });
  expect((await again.client.hears("leave")).action).toBe(LeaveRequest_Action.RECONNECT);

  const sent = await joined("simulated", "sent");
  sent.simulate({ case: "serverLeave", value: true });
  expect(await sent.client.hears("leave")).toMatchObject({
    action: LeaveRequest_Action.DISCONNECT,
    reason: DisconnectReason.SERVER_SHUTDOWN,
  });
  await sent.client.isClosed();
});

test("a simulated speaker speaks for the given time, and other scenarios are refused", async () => {
  const { client, participant, simulate } = await joined("spoken", "ann");
  simulate({ case: "speakerUpdate", value: 1 });
  const sid = participant?.sid;
  await client.hears("speakersChanged", ({ speakers }) => speakers.some((one) => one.sid === sid && one.active));
  await client.hears("speakersChanged", ({ speakers }) => speakers.some((one) => one.sid === sid && !one.active));
  simulate({ case: "disconnectSignalOnResume", value: true });
  expect((await client.hears("requestResponse")).reason).toBe(RequestResponse_Reason.UNSUPPORTED_TYPE);
});

test("a room is recorded while a participant with the recorder grant is in it", async () => {
  const ann = await joined("recorded", "ann");
  expect(ann.info?.activeRecording).toBe(false);
  const recorder = await joined("recorded", "recorder", { grant: { recorder: true, hidden: true } });
  expect(recorder.participant?.permission?.recorder).toBe(true);
  await ann.client.hears("roomUpdate", ({ room }) => room?.activeRecording === true);
  expect((await stage.rooms.listRooms(["recorded"]))[0].activeRecording).toBe(true);
  recorder.client.send({ case: "leave", value: {} as never });
  await ann.client.hears("roomUpdate", ({ room }) => room?.activeRecording === false);
});

test("participants have the kind that their token names", async () => {
  const kinds = { egress: 2, sip: 3, connector: 7, bridge: 8, ingress: 1, agent: 4, standard: 0 };
  for (const [kind, value] of Object.entries(kinds)) {
    expect([kind, ParticipantInfo_Kind[value]]).toEqual([kind, kind.toUpperCase()]);
    const { participant, client } = await joined("kinds", kind, { kind });
    expect([kind, participant?.kind]).toEqual([kind, value]);
    client.close();
  }
});
