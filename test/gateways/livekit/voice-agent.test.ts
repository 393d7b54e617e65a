import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { joinRoom } from "../../e2e/sdk/page-api.ts";
import { hears, joinLivekit } from "./harness/livekit-page.ts";
import { livekitPackages } from "./harness/packages.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

declare global {
  interface Window {
    /** What was transcribed, with the participant who is said to have said it. */
    transcribed: { identity: string; text: string }[];
    captions: { identity: string; text: string; final: boolean }[];
    /** How loud the agent is now, from 0 to 1. */
    level(): number;
    speak(isSpeaking: boolean): void;
  }
}

let stage: Stage;
let worker: Bun.Subprocess;
beforeAll(async () => {
  const packages = await livekitPackages("agent-packages");
  stage = await openStage();
  worker = Bun.spawn(["node", join(import.meta.dir, "harness/voice-agent.mjs"), "start"], {
    env: {
      ...process.env,
      AGENT_PACKAGES: packages,
      LIVEKIT_URL: stage.wsUrl,
      LIVEKIT_API_KEY: stage.apiKey,
      LIVEKIT_API_SECRET: stage.apiSecret,
    },
    stdout: "ignore",
    stderr: "inherit",
  });
}, 180_000);
afterAll(async () => {
  // A worker that is asked to end waits for its jobs, which end with it in any case.
  worker?.kill("SIGKILL");
  await worker?.exited;
  await stage?.close();
});

const reads = (page: Page, by: string, text: string) =>
  page.waitForFunction(
    ({ by, text }) => window.transcribed.some((one) => one.identity === by && one.text.includes(text)),
    { by, text },
    { timeout: WAIT_MS },
  );

const isLoud = (page: Page, wanted: boolean) =>
  page.waitForFunction((wanted) => window.level() > 0.05 === wanted, wanted, { timeout: WAIT_MS, polling: 100 });

test(
  "a voice agent of agents-js is heard, falls silent when the user speaks, and both are transcribed for both SDKs",
  async () => {
    const [page, stoa] = [await stage.page("livekit-client"), await stage.page("stoa")];
    const token = await stage.token("voice", "ann");
    await joinLivekit(page, stage.wsUrl, token, { publish: false });
    await page.evaluate(async () => {
      const { livekit } = window;
      window.transcribed = [];
      livekit.registerTextStreamHandler(
        "lk.transcription",
        async (reader: AsyncIterable<string>, { identity }: { identity: string }) => {
          const said = { identity, text: "" };
          window.transcribed.push(said);
          for await (const part of reader) said.text += part;
        },
      );
      const context = new AudioContext();
      const [voice, volume] = [context.createOscillator(), context.createGain()];
      const microphone = context.createMediaStreamDestination();
      voice.connect(volume).connect(microphone);
      volume.gain.value = 0;
      voice.start();
      window.speak = (isSpeaking) => {
        volume.gain.value = isSpeaking ? 0.5 : 0;
      };
      await livekit.localParticipant.publishTrack(microphone.stream.getAudioTracks()[0], { source: "microphone" });
    });
    await page.waitForFunction(() =>
      [...window.livekit.remoteParticipants.values()].some(
        ({ isAgent, audioTrackPublications: [entry] }) => isAgent && entry?.[1].track,
      ),
    );
    const agent = await page.evaluate(() => {
      const [{ identity, audioTrackPublications }] = [...window.livekit.remoteParticipants.values()];
      const [{ track }] = [...audioTrackPublications.values()];
      const context = new AudioContext();
      const analyser = context.createAnalyser();
      context.createMediaStreamSource(new MediaStream([track.mediaStreamTrack])).connect(analyser);
      const samples = new Float32Array(analyser.fftSize);
      window.level = () => {
        analyser.getFloatTimeDomainData(samples);
        return Math.max(...samples.map(Math.abs));
      };
      return identity as string;
    });
    expect(agent).toStartWith("agent-");
    await isLoud(page, true);
    await hears(page, agent);
    await reads(page, agent, "Good day");

    const room = await stage.stoa.rooms.get("voice");
    const mint = { participantIdentity: "stan", permissions: { publishData: true } };
    await joinRoom(stoa, await stage.stoa.rtcTokens.mint(room.id, mint));
    await stoa.evaluate(() => {
      window.captions = [];
      window.room.on("caption", (caption) => window.captions.push(caption));
    });

    await page.evaluate(() => window.speak(true));
    await isLoud(page, false);
    await page.evaluate(() => window.speak(false));
    await reads(page, "ann", "a tone from you");
    await isLoud(page, true);
    await reads(page, agent, "You said: a tone from you.");
    const isCaption = (identity: string, text: string, final: boolean) =>
      stoa.waitForFunction(
        (wanted) =>
          window.captions.some(
            (one) => one.identity === wanted.identity && one.final === wanted.final && one.text.trim() === wanted.text,
          ),
        { identity, text, final },
        { timeout: WAIT_MS },
      );
    await isCaption("ann", "a tone", false);
    await isCaption("ann", "a tone from you", true);
    await isCaption(agent, "You said: a tone from you.", true);
    await stoa.context().close();
    // The greeting was cut short, so its last words were never said.
    const said = await page.evaluate(() => window.transcribed);
    expect(said.some(({ text }) => text.includes("long greeting"))).toBe(false);
    await page.context().close();
  },
  3 * WAIT_MS,
);
