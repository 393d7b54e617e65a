import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import { readWav } from "../../src/rtc-client/participant/audio-source.ts";
import { tone } from "../../src/rtc-client/participant/participant.ts";
import { recordVoice } from "../../web/examples/node-bot/record-track.ts";
import { logVoices } from "../../web/examples/node-bot/voice-log.ts";
import { playWaitingMusic } from "../../web/examples/node-bot/waiting-music.ts";
import { pitchOf } from "./sound.ts";
import { participantStage } from "./stage.ts";

const stage = participantStage();
const { open, enter } = stage;

test("the voice log writes into the chat which participant spoke and for how long", async () => {
  const scribe = await logVoices(stage.stoa, "meeting");
  open.push(scribe);
  const anna = await enter("meeting", "anna");
  let isHeard = false;
  scribe.once("audio", () => {
    isHeard = true;
  });
  function* sentence() {
    while (!isHeard) yield new Int16Array(960);
    yield* tone({ hz: 300, seconds: 1 });
    for (let frame = 0; frame < 100; frame++) yield new Int16Array(960);
  }
  await anna.publishAudio(sentence());
  let said: string | null | undefined;
  while (!said) {
    said = (await stage.stoa.messages.history("meeting")).data.find(({ type }) => type === "text")?.text;
    await Bun.sleep(50);
  }
  expect(said).toMatch(/^anna spoke for (0\.[6-9]|1\.[0-3]) s$/);
}, 60_000);

test("the recorder's file has the audio of one participant only", async () => {
  const path = pathOf(mkdtempSync(pathOf(tmpdir(), "stoa-record-")), "ben.wav");
  const [ben, carl] = [await enter("studio", "ben"), await enter("studio", "carl")];
  const recorder = await recordVoice(stage.stoa, "studio", "ben", path);
  await carl.publishAudio(tone({ hz: 900 }));
  await ben.publishAudio(tone({ hz: 350 }));
  while (recorder.seconds() < 2) await Bun.sleep(50);
  await recorder.stop();
  const { samples, sampleRate, channels } = readWav(readFileSync(path));
  expect(channels).toBe(1);
  expect(Math.abs(pitchOf(samples.slice(-sampleRate), sampleRate) - 350)).toBeLessThan(3);
  rmSync(pathOf(path, ".."), { recursive: true });
}, 60_000);

test("music plays for a participant that waits alone, and stops when another joins", async () => {
  const dora = await enter("lounge", "dora");
  const music = await playWaitingMusic(stage.stoa, "lounge");
  open.push(music);
  await new Promise<void>((resolve) => {
    dora.on("audio", ({ identity, samples }) => {
      if (identity === "music" && samples.some((sample) => Math.abs(sample) > 2_000)) resolve();
    });
  });
  await enter("lounge", "eve");
  while (!dora.participants.get("music")?.tracks.every(({ muted }) => muted)) await Bun.sleep(20);
}, 60_000);
