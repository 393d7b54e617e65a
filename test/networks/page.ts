/** What runs in the pages: each function stands alone, because it is sent there as text. */
import type * as Sdk from "../../web/sdk/index.ts";

type Way = { endpoint: string; token: string };
/** `firstFrameMs` from the join; standstills by when they began, since then too. */
export type Seen = {
  firstFrameMs: number | null;
  standstills: { atMs: number; ms: number }[];
  frames: number;
  bytes: number;
  states: string[];
  left: string[];
};

declare global {
  interface Window {
    watched: () => Promise<Seen>;
  }
}

/**
 * A voice and three pictures in two sizes each, of clouds that never stay: an encoder spends all it may on them, so a link can
 * be filled, and yet drops no frame of them, as it does of noise.
 */
export async function publishClouds({ endpoint, token }: Way): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const room = await sdk.connect(endpoint, token);
  const { localParticipant } = room;
  const audio = new AudioContext();
  const noise = new AudioBufferSourceNode(audio, { loop: true, buffer: audio.createBuffer(1, 48_000, 48_000) });
  const samples = noise.buffer?.getChannelData(0);
  if (samples) for (let n = 0; n < samples.length; n++) samples[n] = (Math.random() - 0.5) / 10;
  const voice = new MediaStreamAudioDestinationNode(audio);
  noise.connect(voice);
  noise.start();
  const [microphone] = voice.stream.getAudioTracks();
  if (microphone) await localParticipant.publish(microphone, { source: "microphone" });
  for (let n = 0; n < 3; n++) {
    const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
    const small = Object.assign(document.createElement("canvas"), { width: 20, height: 11 });
    const [picture, grain] = [canvas.getContext("2d"), small.getContext("2d")];
    setInterval(() => {
      if (!picture || !grain) return;
      const pixels = grain.createImageData(20, 11);
      for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = at % 4 === 3 ? 255 : 110 + Math.random() * 35;
      grain.putImageData(pixels, 0, 0);
      picture.drawImage(small, 0, 0, 640, 360);
    }, 66);
    const [track] = canvas.captureStream(15).getVideoTracks();
    if (!track) continue;
    await localParticipant.publish(track, {
      source: n === 0 ? "camera" : "other",
      encodings: [
        { rid: "q", scaleResolutionDownBy: 2, maxBitrate: 130_000 },
        { rid: "f", maxBitrate: 450_000 },
      ],
    });
  }
}

/** Joins and shows every picture; `watched` tells what was seen of it. A picture stands still when none of them moves. */
export async function startWatching({ endpoint, token }: Way): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const startedAt = performance.now();
  const elements: HTMLVideoElement[] = [];
  const states: string[] = [];
  const left: string[] = [];
  const standstills: Seen["standstills"] = [];
  let firstFrameMs: number | null = null;
  let frames = 0;
  let movedAt = 0;
  const sinceStart = () => Math.round(performance.now() - startedAt);
  const sample = () => {
    const shown = elements.reduce((sum, element) => sum + element.getVideoPlaybackQuality().totalVideoFrames, 0);
    const now = sinceStart();
    if (shown > frames) {
      firstFrameMs ??= now;
      if (movedAt > 0 && now - movedAt > 300) standstills.push({ atMs: movedAt, ms: now - movedAt });
      movedAt = now;
    }
    frames = shown;
  };
  setInterval(sample, 50);
  const connecting = sdk.connect(endpoint, token);
  void connecting.then((room) => {
    room.on("connectionStateChanged", (state) => states.push(state));
    room.on("participantLeft", ({ identity }) => left.push(identity));
    room.on("trackSubscribed", (track) => {
      if (track.kind !== "video") return;
      const element = track.attach() as HTMLVideoElement;
      element.style.cssText = "width:640px;height:360px";
      document.body.append(element);
      elements.push(element);
    });
  });
  let bytes = 0;
  // Rates are those since the last call: their sum over the seconds is what has arrived.
  setInterval(async () => {
    const stats = await (await connecting).getStats();
    for (const { direction, bps } of stats?.tracks ?? []) if (direction === "in") bytes += (bps ?? 0) / 8;
  }, 1_000);
  window.watched = async () => {
    sample();
    const tail = movedAt > 0 && sinceStart() - movedAt > 300 ? [{ atMs: movedAt, ms: sinceStart() - movedAt }] : [];
    return { firstFrameMs, standstills: [...standstills, ...tail], frames, bytes, states, left };
  };
}
