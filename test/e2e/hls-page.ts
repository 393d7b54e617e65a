/** What runs in the pages of a live stream: each function stands alone, because it is sent there as text. */
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";

/** Sends pictures whose brightness says when they were drawn, in tenths of seconds modulo 25.6, and a tone. */
export async function publishBrightness(codec: VideoCodec): Promise<void> {
  const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  setInterval(() => {
    const tenth = Math.floor(Date.now() / 100) % 256;
    draw.fillStyle = `rgb(${tenth} ${tenth} ${tenth})`;
    draw.fillRect(0, 0, 320, 180);
  }, 40);
  const context = new AudioContext();
  await context.resume();
  const destination = context.createMediaStreamDestination();
  const tone = new OscillatorNode(context, { frequency: 440 });
  tone.connect(destination);
  tone.start();
  const [picture] = canvas.captureStream(25).getVideoTracks();
  const [sound] = destination.stream.getAudioTracks();
  const { localParticipant } = window.room;
  const options = { source: "camera", codec, simulcast: false } as const;
  await localParticipant.publish(picture as MediaStreamTrack, options);
  await localParticipant.publish(sound as MediaStreamTrack, { source: "microphone" });
}

/** Where the page has hls.js by a script: plays the address; fatal errors are kept. */
export function playHls(source: string): void {
  const made = document.createElement("video");
  made.muted = true;
  document.body.append(made);
  const errors: string[] = [];
  // biome-ignore lint/suspicious/noExplicitAny: the page has it by a script of its own
  const { Hls } = window as any;
  const hls = new Hls({ lowLatencyMode: true });
  hls.on(Hls.Events.ERROR, (_: unknown, { fatal, details }: { fatal: boolean; details: string }) => {
    if (fatal) errors.push(details);
  });
  hls.loadSource(source);
  hls.attachMedia(made);
  Object.assign(window, { hls, hlsErrors: errors });
  void made.play();
}

export type HlsPlayer = {
  currentTime: number;
  seekable: number;
  errors: string[];
  latency: number;
  width: number;
  soundBytes: number;
};

export function hlsPlayer(): HlsPlayer {
  const made = document.querySelector("video") as HTMLVideoElement & { webkitAudioDecodedByteCount: number };
  // biome-ignore lint/suspicious/noExplicitAny: as above
  const { hls, hlsErrors } = window as any;
  return {
    currentTime: made.currentTime,
    seekable: made.seekable.length > 0 ? made.seekable.end(0) - made.seekable.start(0) : 0,
    errors: hlsErrors,
    latency: hls.latency,
    width: made.videoWidth,
    soundBytes: made.webkitAudioDecodedByteCount,
  };
}

/** How long ago the picture that is shown was drawn. */
export function hlsDelayMs(): number {
  const made = document.querySelector("video") as HTMLVideoElement;
  const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  draw.drawImage(made, 0, 0, 16, 16);
  const [tenth = 0] = draw.getImageData(8, 8, 1, 1).data;
  return (((Math.floor(Date.now() / 100) % 256) - tenth + 256) % 256) * 100;
}
