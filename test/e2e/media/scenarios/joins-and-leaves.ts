import { expect } from "bun:test";
import type { Call, Scene } from "../rtc-harness.ts";

const JOINS = 10;
const ROUNDS = 20;
const SOURCES = ["camera", "microphone", "screenShare"];

/** Measures ten joins, from the opening of the socket to the first decoded frame. */
export async function timesJoins({ stage, browser, api }: Scene, { roomId }: Call): Promise<void> {
  const viewer = await stage.page(browser);
  const { token } = await api.mint(roomId, "viewer");
  const times: number[] = [];
  // The first join is not counted, because it starts a decoder and compiles code.
  for (let round = 0; round <= JOINS; round++) {
    const { decoded } = await viewer.evaluate(([url, credential]) => window.timedJoin(url, credential, "ann"), [
      stage.endpoint,
      token,
    ] as const);
    if (round > 0) times.push(decoded);
  }
  await viewer.close();
  times.sort((a, b) => a - b);
  const at = (share: number) => Math.round(times[Math.ceil(times.length * share) - 1] ?? 0);
  console.log(`join to first decoded frame: p50 ${at(0.5)} ms (goal 300), p95 ${at(0.95)} ms (goal 600)`);
  expect(times).toHaveLength(JOINS);
}

/** A participant joins with camera, microphone and screen and leaves twenty times, and nothing is left behind. */
export async function comesAndGoes({ stage, browser, api }: Scene, { roomId, ann }: Call): Promise<void> {
  const guest = await stage.page(browser);
  const { token } = await api.mint(roomId, "guest");
  for (let round = 0; round < ROUNDS; round++) {
    const since = await ann.page.evaluate(() => window.rtc.pushes.length);
    await guest.evaluate(
      async ([url, credential]) => {
        const rtc = window.openRtc();
        await rtc.join(url, credential);
        await rtc.publish();
        await rtc.shareScreen();
        await rtc.offer();
      },
      [stage.endpoint, token] as const,
    );
    await ann.page.evaluate(
      async ([sources, n]) => {
        for (const source of sources)
          await window.rtc.push("track.published", { identity: "guest", track: { source } }, n);
      },
      [SOURCES, since] as const,
    );
    await guest.evaluate(async () => {
      await window.rtc.ask("room.leave");
      window.rtc.end();
    });
    await ann.page.evaluate((n) => window.rtc.push("participant.left", { identity: "guest" }, n), since);
  }
  await guest.close();
  const ofGuest = await ann.page.evaluate(() => window.rtc.pushes.filter(({ identity }) => identity === "guest"));
  expect(ofGuest.filter(({ type }) => type === "participant.left")).toHaveLength(ROUNDS);
  expect(ofGuest.filter(({ type }) => type === "track.published")).toHaveLength(ROUNDS * SOURCES.length);
  const { text } = await api.call("GET", `/v1/rooms/${roomId}/participants`);
  expect(JSON.parse(text)).not.toContainEqual(expect.objectContaining({ identity: "guest" }));
}
