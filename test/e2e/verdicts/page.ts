/** Functions that run in the pages. Each one stands alone, because it is sent there as text. */
import type { CallVerdict } from "../../../src/protocol/room-records.ts";
import type * as Sdk from "../../../web/sdk/index.ts";

/** A camera that is opened as users do, or a video that the page draws. */
export type Video = "camera" | { width: number; height: number; framesPerSecond: number };
export type Participation = { endpoint: string; token: string; relayOnly: boolean; video: Video };

declare global {
  interface Window {
    call: {
      room: Sdk.Room;
      explained: CallVerdict[];
      states: string[];
      /** Shown so far. */
      frames(): number;
      /** For how long its encoder has said that this computer is too slow. */
      slowSeconds(): Promise<number>;
    };
  }
}

/** Joins, shows what comes, and sends a voice and a video of clouds that never stay: an encoder spends all it may on them. */
export async function takePart({ endpoint, token, relayOnly, video }: Participation): Promise<void> {
  const path = "/sdk.js";
  const sdk: typeof Sdk = await import(path);
  const connections: RTCPeerConnection[] = [];
  window.RTCPeerConnection = class extends window.RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration);
      connections.push(this);
    }
  };
  const room = await sdk.connect(endpoint, token, { relayOnly });
  const elements: HTMLVideoElement[] = [];
  window.call = {
    room,
    explained: [],
    states: [],
    frames: () => elements.reduce((sum, element) => sum + element.getVideoPlaybackQuality().totalVideoFrames, 0),
    async slowSeconds() {
      const reports = await Promise.all(connections.map((connection) => connection.getStats()));
      const entries = reports.flatMap((report) => [...report.values()]);
      return Math.max(0, ...entries.map((entry) => entry.qualityLimitationDurations?.cpu ?? 0));
    },
  };
  room.on("qualityExplained", (verdict) => window.call.explained.push(verdict));
  room.on("connectionStateChanged", (state) => window.call.states.push(state));
  const show = (track: Sdk.RemoteTrack) => {
    if (track.kind !== "video") return;
    const element = track.attach() as HTMLVideoElement;
    element.style.cssText = "width:640px;height:360px";
    document.body.append(element);
    elements.push(element);
  };
  room.on("trackSubscribed", show);

  const audio = new AudioContext();
  const noise = new AudioBufferSourceNode(audio, { loop: true, buffer: audio.createBuffer(1, 48_000, 48_000) });
  const samples = noise.buffer?.getChannelData(0);
  if (samples) for (let n = 0; n < samples.length; n++) samples[n] = (Math.random() - 0.5) / 10;
  const voice = new MediaStreamAudioDestinationNode(audio);
  noise.connect(voice);
  noise.start();
  const [microphone] = voice.stream.getAudioTracks();
  if (!microphone) throw new Error("there is no voice");
  await room.localParticipant.publish(microphone, { source: "microphone" });

  if (video === "camera") return void (await room.localParticipant.enableCamera());
  const { width, height, framesPerSecond } = video;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const small = Object.assign(document.createElement("canvas"), { width: 20, height: 11 });
  const [large, grain] = [canvas.getContext("2d"), small.getContext("2d")];
  setInterval(() => {
    if (!large || !grain) return;
    const pixels = grain.createImageData(20, 11);
    for (let at = 0; at < pixels.data.length; at++) pixels.data[at] = at % 4 === 3 ? 255 : 110 + Math.random() * 35;
    grain.putImageData(pixels, 0, 0);
    large.drawImage(small, 0, 0, width, height);
  }, 1_000 / framesPerSecond);
  const [track] = canvas.captureStream(framesPerSecond).getVideoTracks();
  if (!track) throw new Error("there is no video");
  const encodings =
    height > 360 || height <= 90
      ? [{ maxBitrate: height > 360 ? 1_500_000 : 100_000 }]
      : [
          { rid: "q", scaleResolutionDownBy: 2, maxBitrate: 80_000 },
          { rid: "f", maxBitrate: 450_000 },
        ];
  await room.localParticipant.publish(track, { source: "camera", encodings });
}
