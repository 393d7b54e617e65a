/** Functions that run in the pages. Each one stands alone, because it is sent there as text. */
import type * as Sdk from "../../../web/sdk/index.ts";

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
    clouds: { microphone: MediaStreamTrack; pictures: MediaStreamTrack[]; encodings: RTCRtpEncodingParameters[] };
    /** An element shows video from now on. */
    seat(element: HTMLVideoElement): void;
    seats: { bytes: number; states: string[]; left: string[] };
    watched(): Promise<Seen>;
    connection: RTCPeerConnection;
  }
}

/**
 * An audio track and three videos in two sizes each, showing moving clouds: an encoder uses its whole bitrate for them, so that
 * they can fill a link, but drops no frames, as it would for noise.
 */
export function prepareClouds(): void {
  const audio = new AudioContext();
  const noise = new AudioBufferSourceNode(audio, { loop: true, buffer: audio.createBuffer(1, 48_000, 48_000) });
  const samples = noise.buffer?.getChannelData(0);
  if (samples) for (let n = 0; n < samples.length; n++) samples[n] = (Math.random() - 0.5) / 10;
  const voice = new MediaStreamAudioDestinationNode(audio);
  noise.connect(voice);
  noise.start();
  const pictures: MediaStreamTrack[] = [];
  for (let n = 0; n < 3; n++) {
    const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 360 });
    const small = Object.assign(document.createElement("canvas"), { width: 20, height: 11 });
    const [scene, grain] = [canvas.getContext("2d"), small.getContext("2d")];
    setInterval(() => {
      if (!scene || !grain) return;
      const pixels = grain.createImageData(20, 11);
      for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = at % 4 === 3 ? 255 : 110 + Math.random() * 35;
      grain.putImageData(pixels, 0, 0);
      scene.drawImage(small, 0, 0, 640, 360);
    }, 66);
    pictures.push(...canvas.captureStream(15).getVideoTracks());
  }
  const [microphone] = voice.stream.getAudioTracks();
  if (!microphone) throw new Error("there is no voice");
  const encodings = [
    { rid: "q", scaleResolutionDownBy: 2, maxBitrate: 130_000 },
    { rid: "f", maxBitrate: 450_000 },
  ];
  window.clouds = { microphone, pictures, encodings };
}

export async function publishClouds({ endpoint, token }: Way): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const { localParticipant } = await sdk.connect(endpoint, token);
  const { microphone, pictures, encodings } = window.clouds;
  await localParticipant.publish(microphone, { source: "microphone" });
  for (const [n, track] of pictures.entries())
    await localParticipant.publish(track, { source: n === 0 ? "camera" : "other", encodings });
}

/** `watched` reports what was seen of the tiles on the stage. A video stands still when none of them moves. */
export function prepareSeats(): void {
  const startedAt = performance.now();
  const elements: HTMLVideoElement[] = [];
  const standstills: Seen["standstills"] = [];
  let firstFrameMs: number | null = null;
  let frames = 0;
  let movedAt = 0;
  const sinceStart = () => Math.round(performance.now() - startedAt);
  const sample = () => {
    const shown = elements.reduce((sum, element) => {
      // Firefox counts what it paints, not what it is given.
      const { mozPaintedFrames = 0 } = element as { mozPaintedFrames?: number };
      return sum + Math.max(element.getVideoPlaybackQuality().totalVideoFrames, mozPaintedFrames);
    }, 0);
    const now = sinceStart();
    if (shown > frames) {
      firstFrameMs ??= now;
      if (movedAt > 0 && now - movedAt > 300) standstills.push({ atMs: movedAt, ms: now - movedAt });
      movedAt = now;
    }
    frames = shown;
  };
  setInterval(sample, 50);
  window.seats = { bytes: 0, states: [], left: [] };
  window.seat = (element) => {
    element.style.cssText = "width:640px;height:360px";
    document.body.append(element);
    elements.push(element);
  };
  window.watched = async () => {
    sample();
    const tail = movedAt > 0 && sinceStart() - movedAt > 300 ? [{ atMs: movedAt, ms: sinceStart() - movedAt }] : [];
    return { firstFrameMs, standstills: [...standstills, ...tail], frames, ...window.seats };
  };
}

/** Joins and shows every video. */
export async function watchRoom({ endpoint, token }: Way): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const { seats } = window;
  const connecting = sdk.connect(endpoint, token);
  void connecting.then((room) => {
    room.on("connectionStateChanged", (state) => seats.states.push(state));
    room.on("participantLeft", ({ identity }) => seats.left.push(identity));
    room.on("trackSubscribed", (track) => {
      if (track.kind === "video") window.seat(track.attach() as HTMLVideoElement);
    });
  });
  // Rates are those since the last call: their sum over the seconds is what has arrived.
  setInterval(async () => {
    const stats = await (await connecting).getStats();
    for (const { direction, bps } of stats?.tracks ?? []) if (direction === "in") seats.bytes += (bps ?? 0) / 8;
  }, 1_000);
}
