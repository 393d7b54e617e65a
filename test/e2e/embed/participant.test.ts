import { afterAll, beforeAll, expect, test } from "bun:test";
import { join, tone } from "../../../src/rtc-client/participant/participant.ts";
import { pitchOf } from "../../rtc-client/sound.ts";
import { openStage, type Stage } from "../sdk/stage.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

test("[21] a tone of 440 Hz arrives with 440 ± 2 Hz from a participant in Chromium, and vice versa", async () => {
  const room = await stage.stoa.rooms.create({ name: "pitch" });
  const mint = (participantIdentity: string) =>
    stage.stoa.rtcTokens.mint(room.id, { participantIdentity, permissions: { publish: true, publishData: true } });
  const [bot, visitor] = [await mint("bot"), await mint("visitor")];
  const participant = await join(bot.endpoint, bot.token);
  const heard: number[] = [];
  participant.on("audio", ({ samples }) => heard.push(...samples));
  await participant.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });

  const page = await stage.page();
  const peaks = await page.evaluate(async ({ endpoint, token }) => {
    const { connect } = (await import(`${location.origin}/sdk.js`)) as typeof import("../../../web/sdk/index.ts");
    const audio = new AudioContext({ sampleRate: 48_000 });
    await audio.resume();
    const room = await connect(endpoint, token);
    const oscillator = new OscillatorNode(audio, { frequency: 440 });
    const out = audio.createMediaStreamDestination();
    oscillator.connect(new GainNode(audio, { gain: 0.5 })).connect(out);
    oscillator.start();
    const [own] = out.stream.getAudioTracks();
    if (own) await room.localParticipant.publish(own, { source: "microphone" });

    const track = await new Promise<MediaStreamTrack>((resolve) => {
      const look = () => {
        for (const participant of room.participants.values()) {
          for (const one of participant.tracks.values()) if (one.mediaStreamTrack) resolve(one.mediaStreamTrack);
        }
      };
      room.on("trackSubscribed", look);
      look();
    });
    const analyser = new AnalyserNode(audio, { fftSize: 32_768, smoothingTimeConstant: 0 });
    audio.createMediaStreamSource(new MediaStream([track])).connect(analyser);
    const bins = new Float32Array(analyser.frequencyBinCount);
    const found: number[] = [];
    while (found.length < 5) {
      await new Promise((resolve) => setTimeout(resolve, 400));
      analyser.getFloatFrequencyData(bins);
      const peak = bins.indexOf(Math.max(...bins));
      const [left = 0, top = 0, right = 0] = [bins[peak - 1], bins[peak], bins[peak + 1]];
      // The window contains only the tone; the peak between two bins is the vertex of a parabola through three.
      if (top > -40)
        found.push(((peak + (0.5 * (left - right)) / (left - 2 * top + right)) * 48_000) / analyser.fftSize);
    }
    return found;
  }, visitor);
  const median = peaks.toSorted((a, b) => a - b)[2] ?? 0;
  expect(Math.abs(median - 440)).toBeLessThan(2);
  while (heard.length < 3 * 48_000) await Bun.sleep(50);
  expect(Math.abs(pitchOf(Int16Array.from(heard.slice(-48_000)), 48_000) - 440)).toBeLessThan(2);
  expect(page.errors).toEqual([]);
  await participant.close();
}, 180_000);
