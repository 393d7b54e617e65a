import { expect } from "bun:test";
import type { Call, Scene } from "../rtc-harness.ts";

const ROUNDS = 3;

/** An ICE restart moves to other sockets of the browser, and media keeps flowing in both directions. */
export async function restartsIce({ api }: Scene, { roomId, ann, ben }: Call): Promise<void> {
  const addresses = await ben.page.evaluate(async (rounds) => {
    const { rtc } = window;
    const { video } = await rtc.watch("ann");
    const address = async () => {
      const stats = await rtc.pc.getStats();
      const { selectedCandidatePairId } = [...stats.values()].find(({ type }) => type === "transport");
      const { ip, port } = stats.get(stats.get(selectedCandidatePairId)?.localCandidateId) ?? {};
      return `${ip}:${port}`;
    };
    const seen = [await address()];
    for (let round = 0; round < rounds; round++) {
      await rtc.offer({ iceRestart: true });
      const moved = await window.until(async () => {
        const now = await address();
        return seen.includes(now) ? undefined : now;
      }, "another address");
      seen.push(moved);
      await rtc.moreFrames(video, 10);
    }
    return seen;
  }, ROUNDS);
  expect(new Set(addresses).size).toBe(ROUNDS + 1);
  await ann.page.evaluate(async () => window.rtc.moreFrames((await window.rtc.watch("ben")).video, 10));
  const { text } = await api.call("GET", `/v1/rooms/${roomId}/participants`);
  const listed = JSON.parse(text) as { identity: string; state: string }[];
  expect(listed.find(({ identity }) => identity === "ben")).toMatchObject({ state: "CONNECTED" });
}
