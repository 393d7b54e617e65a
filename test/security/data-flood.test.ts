import { beforeEach, describe, expect, test } from "bun:test";
import { typescriptPath } from "../../src/sfu/fast-path/fast-path.ts";
import type { ParticipantHost } from "../../src/sfu/room/host.ts";
import { Room } from "../../src/sfu/room/room.ts";
import type { DataChannel } from "../../src/sfu/werift/werift-hooks.ts";
import { fakeClock } from "../harness/clock.ts";
import { ALL } from "../sfu/room-of-peers.ts";

const CHANNEL: DataChannel = { label: "lossy", protocol: "", isOpen: true, bufferedAmount: 0, send() {}, close() {} };

/** No participant has a media connection here: data is delivered to the room's sockets, and counted there. */
describe("data of one sender to many", () => {
  let clock: ReturnType<typeof fakeClock>;
  let room: Room;
  let deliveries: Map<string, number>;
  let host: ParticipantHost;

  beforeEach(() => {
    clock = fakeClock();
    deliveries = new Map();
    host = {
      now: clock.now,
      emit(event: { type: string; from?: string; recipients?: string[] }) {
        if (event.type !== "data" || !event.from || !event.recipients) return;
        deliveries.set(event.from, (deliveries.get(event.from) ?? 0) + event.recipients.length);
      },
      udp: { repairs: {}, path: typescriptPath },
    } as unknown as ParticipantHost;
    room = new Room(host, { roomId: "room", audibleVoices: 2 });
    for (let i = 0; i < 16; i += 1) {
      room.add({ roomId: "room", participantId: `p${i}`, identity: `p${i}`, permissions: ALL });
    }
  });

  const send = (who: string, payload: string) => room.find(who)?.data.received(CHANNEL, JSON.stringify({ payload }));

  /** Every sender sends as fast as its own message budget allows, for this long. */
  function flood(senders: string[], seconds: number, payload = "x"): void {
    for (let ms = 0; ms < seconds * 1_000; ms += 2) {
      for (const sender of senders) send(sender, payload);
      clock.advance(2);
    }
  }

  test("delivers 2,500 a second and no more, however many listen", () => {
    flood(["p0"], 8);
    expect(deliveries.get("p0")).toBeGreaterThanOrEqual(8 * 2_500);
    expect(deliveries.get("p0")).toBeLessThanOrEqual(9 * 2_500 + 15);
  });

  test("delivers 8 MiB a second and no more, however large its messages are", () => {
    const payload = "x".repeat(60_000);
    flood(["p0"], 8, payload);
    expect((deliveries.get("p0") ?? 0) * payload.length).toBeLessThanOrEqual(9 * 8 * 1024 * 1024 + 15 * payload.length);
  });

  test("leaves other senders their share, and the room as a whole has a limit", () => {
    for (let ms = 0; ms < 8_000; ms += 2) {
      send("p0", "x");
      if (ms % 50 === 0) send("p1", "honest");
      clock.advance(2);
    }
    expect(deliveries.get("p1")).toBe(160 * 15);
    deliveries.clear();
    flood(["p2", "p3", "p4", "p5", "p6"], 8);
    const total = [...deliveries.values()].reduce((sum, count) => sum + count, 0);
    expect(total).toBeLessThanOrEqual(9 * 4_000 + 5 * 15);
  });

  test("on the socket, messages over the room's limit are refused with the reason; backends have no limit", () => {
    const say = (from: string | null) => room.sendData({ roomId: "room", from, payload: "x" });
    const flooded = () => {
      for (let i = 0; i < 1_000; i += 1) say("p0");
    };
    expect(flooded).toThrow("Send it again in a second.");
    expect(deliveries.get("p0")).toBeLessThanOrEqual(4_000 + 15);
    expect(() => say("p1")).toThrow("as much data as it may");
    say(null);
    clock.advance(1_000);
    say("p1");
    expect(deliveries.get("p1")).toBe(15);
  });

  test("messages for other workers pass through the main thread, so each counts there, even if it names nobody", () => {
    let relayed = 0;
    host.relayData = () => void relayed++;
    room.share({ kind: "worker", offer() {}, end() {}, muted() {}, wantedBackup: () => null });
    const frame = JSON.stringify({ payload: "x", to: ["nobody"] });
    for (let ms = 0; ms < 8_000; ms += 2) {
      for (let n = 0; n < 16; n += 1) room.find(`p${n}`)?.data.received(CHANNEL, frame);
      clock.advance(2);
    }
    expect(relayed).toBeGreaterThanOrEqual(8 * 4_000);
    expect(relayed).toBeLessThanOrEqual(9 * 4_000 + 15);
  });

  test("a message to more recipients than the limit per second is sent to all of them", () => {
    for (let i = 16; i < 3_000; i += 1) {
      room.add({ roomId: "room", participantId: `p${i}`, identity: `p${i}`, permissions: ALL });
    }
    send("p0", "to all");
    send("p0", "too soon");
    expect(deliveries.get("p0")).toBe(2_999);
    clock.advance(1_000);
    send("p0", "again");
    expect(deliveries.get("p0")).toBe(2 * 2_999);
  });
});
