import { afterAll, describe, expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import { ParticipantsAck, Pushes } from "../../../src/protocol/signaling.ts";
import { type Frame, type RtcClient, rtcServer, settled } from "../../harness/rtc.ts";

const server = await rtcServer({ SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 300, MAX_PUBLISHERS_PER_ROOM: 3 });
afterAll(server.close);
const { node, clock } = server;

type Joined = RtcClient & { ack: Frame };
type Record = { identity: string; tracks: { id: string }[] };

/** Joins and is announced at once, without media. */
async function enter(roomId: string, identity: string, roster?: string): Promise<Joined> {
  const client = await server.joined(roomId, identity, { join: { ...(roster && { roster }) } });
  await client.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
  node.connect(String(client.ack.sessionId));
  return client;
}

async function crowd(roomId: string, count: number, from = 0): Promise<void> {
  for (let n = from; n < from + count; n++) await enter(roomId, `v${n}`, "none");
}

async function publish(client: Joined): Promise<Frame> {
  const section = { mid: "0", clientTrackId: "voice", kind: "audio", source: "microphone" };
  const answer = await client.ask("media.offer", { sdp: "v=0", publish: [section], subscribe: [] });
  if (answer.type === "ack") node.connect(String(client.ack.sessionId));
  return answer;
}

const listed = ({ ack }: Joined) => (ack.participants as Record[]).map(({ identity }) => identity);
const types = (client: RtcClient, since = 0) =>
  client.frames.slice(since).flatMap(({ type, seq }) => (seq ? [type] : []));
/** Ends the time in which changes are combined. */
const passed = async () => {
  clock.advance(500);
  await settled();
};

describe("[signaling] the roster of a join", () => {
  test("lists everyone up to 50 participants, and above only those who publish; the count has all", async () => {
    const roomId = await server.room();
    const ann = await enter(roomId, "ann");
    await publish(ann);
    await crowd(roomId, 48);
    const fiftieth = await enter(roomId, "fifty");
    expect([fiftieth.ack.roster, listed(fiftieth).length, fiftieth.ack.participantCount]).toEqual(["all", 49, 50]);
    const next = await enter(roomId, "fifty-one");
    expect([next.ack.roster, listed(next), next.ack.participantCount]).toEqual(["publishers", ["ann"], 51]);
    const chosen = await enter(roomId, "chosen", "all");
    expect([chosen.ack.roster, listed(chosen).length]).toEqual(["all", 51]);
  });

  test("an unknown roster is refused", async () => {
    const { token } = await server.mint(await server.room(), "ada");
    expect(await server.connect(token).join({ roster: "some" })).toMatchObject({ code: "VALIDATION_FAILED" });
  });

  test("the answer stays below 4 KB in a large room", async () => {
    const roomId = await server.room();
    const ann = await enter(roomId, "ann");
    await publish(ann);
    await crowd(roomId, 60);
    const viewer = await enter(roomId, "viewer");
    expect(JSON.stringify(viewer.ack).length).toBeLessThan(4_096);
  });
});

describe("[signaling] a participant that joins, changes or leaves without publishing", () => {
  test("causes no push to the rosters `publishers` and `none`, in a small and a large room", async () => {
    const roomId = await server.room();
    const [some, none] = [await enter(roomId, "some", "publishers"), await enter(roomId, "none", "none")];
    const seen = [some.frames.length, none.frames.length];
    const small = await enter(roomId, "small", "none");
    await small.ask("participant.update", { metadata: "m" });
    await small.ask("room.leave");
    await crowd(roomId, 60);
    const large = await enter(roomId, "large", "none");
    await large.ask("participant.update", { metadata: "m" });
    node.emit({ type: "qualityChanged", ...refOf(roomId, large), identity: "large", quality: "poor" });
    await large.ask("room.leave");
    await passed();
    expect([types(some, seen[0]), types(none, seen[1])]).toEqual([[], []]);
    expect(large.of("quality.changed")).toMatchObject([{ identity: "large" }]);
  });

  test("reaches the roster `all` at once in a small room, and combined in a large one, at most twice a second", async () => {
    const roomId = await server.room();
    const all = await enter(roomId, "all");
    await enter(roomId, "small", "none");
    expect(types(all)).toEqual(["participant.joined"]);
    await crowd(roomId, 60);
    await passed();
    const since = all.frames.length;
    const one = await enter(roomId, "one", "none");
    await enter(roomId, "two", "none");
    const brief = await enter(roomId, "brief", "none");
    await brief.ask("room.leave");
    await one.ask("participant.update", { metadata: "m" });
    expect(types(all, since)).toEqual([]);
    await passed();
    await passed();
    const pushes = all.frames.slice(since);
    expect(pushes).toMatchObject([
      {
        type: "participants.changed",
        joined: [{ identity: "one", metadata: "m" }, { identity: "two" }],
        left: [{ identity: "brief", reason: "left" }],
        updated: [],
        count: 64,
      },
    ]);
    expect(Value.Check(Pushes["participants.changed"], pushes[0])).toBe(true);
  });

  test("at most 200 changes are in one push, and departures come first", async () => {
    const roomId = await server.room();
    const all = await enter(roomId, "all", "all");
    await crowd(roomId, 230);
    await passed();
    const sizes = () =>
      all
        .of("participants.changed")
        .map((push) => [(push.left as unknown[]).length, (push.joined as unknown[]).length]);
    expect(sizes().at(-1)).toEqual([0, 181]);
    const before = sizes().length;
    const participantIds = node
      .peers()
      .flatMap((peer) => (peer.roomId === roomId && peer.identity !== "all" ? [peer.participantId] : []));
    node.emit({ type: "workerCrashed", worker: 0, rooms: [{ roomId, participantIds, remains: true }] });
    await enter(roomId, "v0", "none");
    await passed();
    await passed();
    expect(sizes().slice(before)).toEqual([
      [200, 0],
      [30, 1],
    ]);
  });

  test("a participant that leaves when the room has become small again does not reappear in the roster", async () => {
    const roomId = await server.room();
    const all = await enter(roomId, "all");
    await crowd(roomId, 49);
    const last = await enter(roomId, "last", "none");
    await last.ask("room.leave");
    await passed();
    const present = new Set<string>();
    for (const frame of all.frames) {
      for (const { identity } of (frame.left ?? []) as Record[]) present.delete(identity);
      for (const { identity } of (frame.joined ?? []) as Record[]) present.add(identity);
      if (frame.type === "participant.joined") present.add((frame.participant as Record).identity);
      if (frame.type === "participant.left") present.delete(String(frame.identity));
    }
    expect([present.size, present.has("last")]).toEqual([49, false]);
  });
});

describe("[signaling] a participant that publishes in a large room", () => {
  test("is announced at once to every roster, with the track, and so is its departure", async () => {
    const roomId = await server.room();
    const some = await enter(roomId, "some", "publishers");
    const none = await enter(roomId, "none", "none");
    const all = await enter(roomId, "all", "all");
    await crowd(roomId, 60);
    await passed();
    const since = [some, none, all].map(({ frames }) => frames.length);
    const ann = await enter(roomId, "ann", "none");
    await publish(ann);
    for (const [index, client] of [some, none, all].entries()) {
      expect(client.frames.slice(since[index])).toMatchObject([
        { type: "participant.joined", participant: { identity: "ann" } },
        { type: "track.published", identity: "ann", track: { kind: "audio" } },
      ]);
    }
    await ann.ask("room.leave");
    await passed();
    for (const [index, client] of [some, none, all].entries()) {
      const pushes = client.frames.slice((since[index] ?? 0) + 2);
      expect(pushes.map(({ type }) => type)).toEqual(["participant.left"]);
    }
  });

  test("speakers reach all but the roster `none`", async () => {
    const roomId = await server.room();
    const some = await enter(roomId, "some", "publishers");
    const none = await enter(roomId, "none", "none");
    const speakers = [{ identity: "some", level: 0.5 }];
    node.emit({ type: "speakersChanged", roomId, speakers });
    expect([some.of("speakers.changed").length, none.of("speakers.changed").length]).toEqual([1, 1]);
    await crowd(roomId, 60);
    node.emit({ type: "speakersChanged", roomId, speakers });
    expect([some.of("speakers.changed").length, none.of("speakers.changed").length]).toEqual([2, 1]);
  });

  test("the number of publishers is limited; one that stops makes room for another, and a repeated offer counts once", async () => {
    const roomId = await server.room();
    const hosts: Joined[] = [];
    for (let n = 0; n < 4; n++) hosts.push(await enter(roomId, `h${n}`));
    const [first, second, third, fourth] = hosts as [Joined, Joined, Joined, Joined];
    for (const host of [first, second, third, first]) expect((await publish(host)).type).toBe("ack");
    expect(await publish(fourth)).toMatchObject({ type: "error", code: "ROOM_PUBLISHERS_FULL" });
    await second.ask("media.offer", { sdp: "v=0", publish: [], subscribe: [] });
    expect((await publish(fourth)).type).toBe("ack");
    expect(await publish(second)).toMatchObject({ code: "ROOM_PUBLISHERS_FULL" });
  });
});

describe("[signaling] room.participants", () => {
  test("pages through everyone in the order in which they joined, at most 200 per page", async () => {
    const roomId = await server.room();
    const some = await enter(roomId, "some", "publishers");
    await crowd(roomId, 204);
    const first = await some.ask("room.participants");
    expect(Value.Check(ParticipantsAck, first)).toBe(true);
    expect([(first.participants as Record[]).length, first.participantCount]).toEqual([200, 205]);
    const gone = String((first.participants as Record[]).at(-1)?.identity);
    node.emit({
      type: "workerCrashed",
      worker: 0,
      rooms: [{ roomId, participantIds: [idOf(roomId, gone)], remains: true }],
    });
    const second = await some.ask("room.participants", { after: first.next });
    expect((second.participants as Record[]).map(({ identity }) => identity)).toEqual([
      "v199",
      "v200",
      "v201",
      "v202",
      "v203",
    ]);
    expect([second.next, second.participantCount]).toEqual([null, 204]);
    const exact = await some.ask("room.participants", { limit: 200, after: (first.next as number) - 195 });
    expect([(exact.participants as Record[]).length, exact.next]).toEqual([199, null]);
    expect(await some.ask("room.participants", { limit: 201 })).toMatchObject({ type: "error" });
  });

  test("a page ends early where attributes are long, so that its size is limited", async () => {
    const roomId = await server.room();
    const ann = await enter(roomId, "ann", "none");
    for (let n = 0; n < 10; n++) {
      const one = await enter(roomId, `long${n}`, "none");
      const written = await one.ask("participant.update", { attributes: { x: "x".repeat(15_000) } });
      expect(written.type).toBe("ack");
    }
    const seen: string[] = [];
    for (let after: unknown = 0; after !== null; ) {
      const page = await ann.ask("room.participants", { after });
      expect(JSON.stringify(page).length).toBeLessThan(90_000);
      seen.push(...(page.participants as Record[]).map(({ identity }) => identity));
      after = page.next;
    }
    expect(seen).toEqual(["ann", ...Array.from({ length: 10 }, (_, n) => `long${n}`)]);
  });
});

test("[signaling] a client that resumes gets the combined changes that it missed", async () => {
  const roomId = await server.room();
  const all = await enter(roomId, "all", "all");
  await crowd(roomId, 60);
  await passed();
  const { sessionId, resumeToken } = all.ack;
  const lastSeq = all.frames.findLast(({ seq }) => seq !== undefined)?.seq;
  const { token } = await server.mint(roomId, "all");
  all.cut();
  await enter(roomId, "later", "none");
  await passed();
  const back = server.connect(token);
  const connectionId = (all.ack.participant as { connectionId: string }).connectionId;
  const ack = await back.ask("room.join", { connectionId, resume: { sessionId, resumeToken, lastSeq } });
  expect([ack.mode, ack.roster]).toEqual(["resumed", "all"]);
  await settled();
  expect(back.of("participants.changed")).toMatchObject([{ joined: [{ identity: "later" }] }]);
});

const refOf = (roomId: string, { ack }: Joined) => ({ roomId, participantId: String(ack.sessionId) });
const idOf = (roomId: string, identity: string) =>
  node.peers().find((peer) => peer.roomId === roomId && peer.identity === identity)?.participantId ?? "";
