// suite: soak
import { expect, test } from "bun:test";
import { tone } from "../../src/rtc-client/participant/participant.ts";
import { participantStage } from "./stage.ts";

const FILE_BYTES = 50_000_000;
const LOSS = 0.05;

const stage = participantStage();

test("50 MB arrive whole on a network that loses a twentieth of all packets, and audio continues meanwhile", async () => {
  const [anna, ben] = [await stage.enter("large", "anna"), await stage.enter("large", "ben")];
  let [heard, lastAt, longestMs] = [0, 0, 0];
  ben.on("audio", () => {
    const now = performance.now();
    if (lastAt > 0) longestMs = Math.max(longestMs, now - lastAt);
    lastAt = now;
    heard += 1;
  });
  await anna.publishAudio(tone({ hz: 440 }));
  while (heard < 50) await Bun.sleep(50);
  for (const one of [anna, ben]) one.network({ loss: LOSS, seed: 11 });
  const content = new Uint8Array(FILE_BYTES);
  for (let at = 0; at < content.length; at += 65_536) crypto.getRandomValues(content.subarray(at, at + 65_536));
  const hash = new Bun.CryptoHasher("sha256");
  const read = new Promise<string>((resolve, reject) =>
    ben.onStream("f", async (reader) => {
      try {
        for await (const piece of reader) hash.update(piece);
        resolve(hash.digest("hex"));
      } catch (error) {
        reject(error);
      }
    }),
  );
  const startedAt = performance.now();
  const heardBefore = heard;
  await anna.sendFile(new Blob([content]), { topic: "f", to: ["ben"] });
  expect(await read).toBe(Bun.SHA256.hash(content, "hex"));
  const seconds = (performance.now() - startedAt) / 1_000;
  // The longest silence is that of this machine too, so it is shown; most of the sound must have come.
  console.log(`      ${seconds.toFixed(1)} s, longest silence ${longestMs.toFixed(0)} ms`);
  expect((heard - heardBefore) / (seconds * 50)).toBeGreaterThan(0.8);
}, 1_200_000);
