import { expect } from "bun:test";
import type { Call, Scene } from "../rtc-harness.ts";

/** A removed participant is notified and cannot return by resuming or with its token. */
export async function isRemovedForGood({ stage, api }: Scene, { roomId, ann, ben }: Call): Promise<void> {
  expect((await api.call("DELETE", `/v1/rooms/${roomId}/participants/ben`)).status).toBe(204);
  const end = await ben.page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
  expect(end).toMatchObject([{ code: 4410 }, { type: "bye", reason: "removed", action: "stop" }]);
  for (const resume of [true, false]) {
    const refused = await ben.page.evaluate(
      async ([url, token, again]) => {
        const { rtc } = window;
        await Promise.race([rtc.join(url, token, { resume: again }), rtc.closing()]).catch(() => {});
        return rtc.closing();
      },
      [stage.endpoint, ben.token, resume] as const,
    );
    expect(refused.code).toBe(4401);
  }
  const left = await ann.page.evaluate(() => window.rtc.push("participant.left", { identity: "ben" }));
  expect(left).toMatchObject({ reason: "removed" });
  const { text } = await api.call("GET", `/v1/rooms/${roomId}/participants`);
  expect(JSON.parse(text)).not.toContainEqual(expect.objectContaining({ identity: "ben" }));
  await ben.page.close();
}
