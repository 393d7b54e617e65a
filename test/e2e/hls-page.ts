/** Functions that run in the pages of a live stream. Each is self-contained, because it is sent there as text. */
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";

/** Publishes a tone and a video whose brightness encodes its time, in tenths of seconds modulo 25.6. */
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
  const [video] = canvas.captureStream(25).getVideoTracks();
  const [sound] = destination.stream.getAudioTracks();
  const { localParticipant } = window.room;
  const options = { source: "camera", codec, simulcast: false } as const;
  await localParticipant.publish(video as MediaStreamTrack, options);
  await localParticipant.publish(sound as MediaStreamTrack, { source: "microphone" });
}

/** Plays the URL with hls.js, which the page has loaded, and collects fatal errors. */
export function playHls(source: string): void {
  const made = document.createElement("video");
  made.muted = true;
  document.body.append(made);
  const errors: string[] = [];
  // biome-ignore lint/suspicious/noExplicitAny: a script of the page defines it
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

/** The age of the frame that is shown. */
export function hlsDelayMs(): number {
  const made = document.querySelector("video") as HTMLVideoElement;
  const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
  const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
  draw.drawImage(made, 0, 0, 16, 16);
  const [tenth = 0] = draw.getImageData(8, 8, 1, 1).data;
  return (((Math.floor(Date.now() / 100) % 256) - tenth + 256) % 256) * 100;
}
