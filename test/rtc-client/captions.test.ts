import { expect, test } from "bun:test";
import type { Caption, Participant } from "../../src/rtc-client/participant/participant.ts";
import { tone } from "../../src/rtc-client/participant/participant.ts";
import { participantStage } from "./stage.ts";

const stage = participantStage();

/** The next `count` captions. */
const heard = (participant: Participant, count: number) =>
  new Promise<Caption[]>((resolve) => {
    const captions: Caption[] = [];
    participant.on("caption", (caption) => {
      captions.push(caption);
      if (captions.length === count) resolve(captions);
    });
  });

test.each([
  ["plain", {}],
  ["encrypted", { encryption: { passphrase: "ours" } }],
])("in a room with %s data, captions reach the speaker and all others", async (name, options) => {
  const [ann, ben, scribe] = await Promise.all(
    ["ann", "ben", "scribe"].map((user) => stage.enter(`captions-${name}`, user, options)),
  );
  if (!ann || !ben || !scribe) throw new Error("not in the room");
  const { id: trackId } = await ann.publishAudio(tone({ hz: 440 }));
  while (![...scribe.participants.values()].some(({ tracks }) => tracks.length > 0)) await Bun.sleep(5);
  while (![...ben.participants.values()].some(({ tracks }) => tracks.length > 0)) await Bun.sleep(5);
  const seen = [heard(ann, 2), heard(ben, 2)];
  const id = await scribe.sendCaption("Good", { trackId, final: false });
  await scribe.sendCaption("Good day", { trackId, id });
  const said = { id, identity: "ann", from: "scribe", trackId };
  const wanted = [
    { ...said, text: "Good", final: false },
    { ...said, text: "Good day", final: true },
  ];
  expect(await Promise.all(seen)).toEqual([wanted, wanted]);
});
