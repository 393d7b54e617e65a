import { expect } from "bun:test";
import type { Call, Scene } from "../rtc-harness.ts";

/** A dropped socket resumes without losing frames or pushes, and the others are not notified. */
export async function resumesAfterACut({ stage }: Scene, { ann, ben }: Call): Promise<void> {
  const before = await ben.page.evaluate(async () => {
    const { rtc } = window;
    const { video } = await rtc.watch("ann");
    rtc.cut();
    await rtc.closing();
    const { packetsLost: lost = 0, framesDecoded: frames = 0 } = await rtc.inbound(video);
    return { video, lost, frames };
  });
  const metadata = crypto.randomUUID();
  await ann.page.evaluate((text) => window.rtc.ask("participant.update", { metadata: text }), metadata);
  const resumed = await ben.page.evaluate(
    async ([url, token, { video, lost, frames }, missed]) => {
      const { rtc } = window;
      const { mode } = await rtc.join(url, token, { resume: true });
      await rtc.push("participant.updated", { participant: { identity: "ann", metadata: missed } });
      const { packetsLost = 0 } = await rtc.decoded(video, frames + 30);
      return { mode, lost: packetsLost - lost, seqs: rtc.pushes.map(({ seq }) => Number(seq)) };
    },
    [stage.endpoint, ben.token, before, metadata] as const,
  );
  expect(resumed).toMatchObject({ mode: "resumed", lost: 0 });
  const first = resumed.seqs[0] ?? 0;
  expect(resumed.seqs).toEqual(resumed.seqs.map((_, at) => first + at));
  const seen = await ann.page.evaluate(() => window.rtc.pushes);
  expect(seen.filter(({ type, identity }) => type === "participant.left" && identity === "ben")).toEqual([]);
}
