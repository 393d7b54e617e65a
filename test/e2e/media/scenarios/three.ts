import { expect } from "bun:test";
import type { Page } from "playwright-core";
import { describeFlow, type Flow, frozenMs } from "../flow.ts";
import { type Call, type Client, joinOnNewPage, receives, type Scene } from "../rtc-harness.ts";

const NAMES = ["ann", "ben", "cas"];
const WATCH_MS = 12_000;
const MAX_FROZEN_MS = 1_000;

/** The measurements of one participant: what it sent, and what it received of each other. */
type Measurements = {
  sent: Flow;
  seen: Record<string, Flow>;
  energy: Record<string, { before: number; after: number }>;
};

/** Three participants receive audio and video of each other without freezing for a second. */
export async function threeSeeEachOther(scene: Scene): Promise<Call> {
  const roomId = await scene.api.room();
  const [ann, ben, cas] = await Promise.all([
    joinOnNewPage(scene, roomId, "ann"),
    joinOnNewPage(scene, roomId, "ben"),
    joinOnNewPage(scene, roomId, "cas"),
  ]);
  const people = [ann, ben, cas];
  await Promise.all(people.map((person) => receivesTheOthers(person)));
  const measured = await Promise.all(people.map(({ page, identity }) => measurements(page, identity)));
  for (const [at, { seen, energy }] of measured.entries()) {
    for (const [name, flow] of Object.entries(seen)) {
      const sender = measured[NAMES.indexOf(name)]?.sent;
      if (!sender) throw new Error(`there are no measurements of ${name}`);
      console.log(`${NAMES[at]} of ${name}: ${describeFlow(flow, sender)}`);
      expect(flow.frames).toBeGreaterThan(0.8 * sender.frames);
      expect(frozenMs(flow, sender)).toBeLessThan(MAX_FROZEN_MS);
      expect(energy[name]?.after).toBeGreaterThan(energy[name]?.before ?? 0);
    }
  }
  for (const { page } of people) expect(NAMES).toContain(await speaker(page));
  const { text } = await scene.api.call("GET", `/v1/rooms/${roomId}/participants`);
  const listed = JSON.parse(text) as { state: string; tracks: { codec: string }[] }[];
  expect(listed.map(({ state }) => state)).toEqual(["CONNECTED", "CONNECTED", "CONNECTED"]);
  for (const { tracks } of listed) expect(tracks.map(({ codec }) => codec).sort()).toEqual(["VP8", "opus"]);
  return { roomId, ann, ben, cas };
}

async function receivesTheOthers({ identity: me, page }: Client): Promise<void> {
  for (const other of NAMES.filter((name) => name !== me)) {
    const { frameHeight, energy } = await receives(page, other);
    expect(frameHeight).toBe(360);
    expect(energy).toBeGreaterThan(0);
  }
}

/** The last loudest speaker. */
function speaker(page: Page): Promise<string> {
  return page.evaluate(() =>
    window.until(() => {
      const loudest = window.rtc.pushes
        .filter(({ type }) => type === "speakers.changed")
        .map(({ speakers }) => (speakers as { identity: string }[])[0]?.identity);
      return loudest.findLast((identity) => identity !== undefined);
    }, "a speaker"),
  );
}

function measurements(page: Page, me: string): Promise<Measurements> {
  return page.evaluate(
    async ([others, watchMs]) => {
      const { rtc } = window;
      const mids = await Promise.all(others.map(async (name) => ({ name, ...(await rtc.watch(name)) })));
      const heard = () => Promise.all(mids.map(async ({ audio }) => (await rtc.inbound(audio)).totalAudioEnergy ?? 0));
      const before = await heard();
      const stopSent = rtc.countFrames(null);
      const stopSeen = mids.map(({ video }) => rtc.countFrames(video));
      await new Promise((wake) => setTimeout(wake, watchMs));
      const after = await heard();
      return {
        sent: stopSent(),
        seen: Object.fromEntries(mids.map(({ name }, i) => [name, stopSeen[i]?.() as Flow])),
        energy: Object.fromEntries(mids.map(({ name }, i) => [name, { before: before[i] ?? 0, after: after[i] ?? 0 }])),
      };
    },
    [NAMES.filter((name) => name !== me), WATCH_MS] as const,
  );
}
