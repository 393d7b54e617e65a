/** What webhooks and players tell about a round: as if no upgrade had happened. */
import type { Received, Receiver } from "../../features/webhooks/receiver.ts";
import { until } from "../../nodes/remote/until.ts";
import { longestHoleMs, type OnAir, type Player, segmentsOf } from "../../ops/on-air.ts";
import type { Upgradable } from "../../ops/upgradable.ts";

/** Two segments follow each other to the precision of their times. */
const HOLE_MS = 50;

const STARTED = ["call.started"];
const JOINED = "call.participant_joined";
const LEFT = "call.participant_left";
const ENDED = ["call.ended"];

/** The participants of each room. */
export type Expected = ReadonlyMap<string, number>;

const ofCalls = ({ received }: Receiver, expected: Expected) =>
  received.filter(({ event }) => event.type.startsWith("call.") && expected.has(String(event.data.roomId)));

/** Returns what differs from calls that have begun and are going on. */
export async function callsGoOn(receiver: Receiver, expected: Expected): Promise<string[]> {
  return differences(receiver, expected, (count) => [...STARTED, ...Array(count).fill(JOINED)]);
}

export async function callsAreOver(receiver: Receiver, expected: Expected): Promise<string[]> {
  return differences(receiver, expected, (count) => [
    ...STARTED,
    ...Array(count).fill(JOINED),
    ...Array(count).fill(LEFT),
    ...ENDED,
  ]);
}

async function differences(
  receiver: Receiver,
  expected: Expected,
  eventsOf: (participants: number) => string[],
): Promise<string[]> {
  const count = [...expected.values()].reduce((sum, participants) => sum + eventsOf(participants).length, 0);
  await until(() => ofCalls(receiver, expected).length >= count);
  const byRoom = Map.groupBy(ofCalls(receiver, expected), ({ event }) => String(event.data.roomId));
  return [...expected].flatMap(([roomId, participants]) => {
    const types = (byRoom.get(roomId) ?? []).map(({ event }: Received) => event.type).sort();
    const wanted = eventsOf(participants).sort();
    return types.join() === wanted.join() ? [] : [`webhooks of ${roomId}: ${types.join(", ")}`];
  });
}

/** Ends the stream; returns what was wrong with its HLS. */
export async function endStream(host: Upgradable, onAir: OnAir, players: readonly Player[]): Promise<string[]> {
  for (const player of players) await player.stop();
  await host.server.call("POST", `/v1/live-streams/${onAir.streamId}/end`);
  const problems = players.flatMap(({ failures }) => failures.map((failure) => `HLS: ${failure}`));
  for (const kind of ["video", "audio"]) {
    const text = await until(async () => {
      const body = await (await fetch(onAir.playlistOf(kind))).text();
      return body.includes("ENDLIST") && body;
    });
    const segments = segmentsOf(text);
    const holeMs = longestHoleMs(segments);
    if (holeMs > HOLE_MS) problems.push(`HLS: ${kind} lacks ${Math.round(holeMs)} ms`);
    if (segments.some(({ discontinuity }) => discontinuity)) problems.push(`HLS: ${kind} is discontinuous`);
  }
  for (const { lists } of players) {
    const changed = lists.some((list, i) => {
      const before = lists[i - 1] ?? [];
      return list.length < before.length || before.some(({ uri }, at) => list[at]?.uri !== uri);
    });
    if (changed) problems.push("HLS: a playlist took back what it had");
  }
  onAir.publisher.close();
  return problems;
}
