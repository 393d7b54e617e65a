/** A participant without a browser that publishes real H.264 and Opus, at the pace of a camera and a microphone. */
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { encoded } from "../features/recordings/ffmpeg.ts";
import { h264, opus, type SentFrame } from "../features/recordings/packetizers.ts";

const LOOP_SECONDS = 4;
const AUDIO_MS = 20;
const VIDEO_MS = 40;

export type EncodedPublisher = {
  /** Video frames and audio packets until now. */
  readonly sent: { video: number; audio: number };
  /** The client as it is after a new socket has resumed the session. */
  resume(): Promise<{ mode: string }>;
  close(): void;
};

type Encoded = { video: SentFrame[]; audio: SentFrame[] };
let made: Encoded | null = null;

function encodeOnce(): Encoded {
  const camera = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-profile:v", "baseline", "-g", "25"];
  made ??= {
    video: h264(encoded("h264", LOOP_SECONDS, ...camera)),
    audio: opus(encoded("opus", LOOP_SECONDS, "-c:a", "libopus")),
  };
  return made;
}

export async function publishEncoded(url: string, token: string): Promise<EncodedPublisher> {
  const { video, audio } = encodeOnce();
  let client = new SignalingClient({ url, token });
  await client.join();
  const sections = [
    { kind: "video" as const, direction: "sendonly" as const, codec: "H264" as const },
    { kind: "audio" as const, direction: "sendonly" as const },
  ];
  const peer = await RtcPeer.create({ node: client, roomId: "", participantId: "", sections, hostname: "0.0.0.0" });
  const publish = [
    { mid: "0", clientTrackId: "camera", kind: "video" as const, source: "camera" as const },
    { mid: "1", clientTrackId: "microphone", kind: "audio" as const, source: "microphone" as const },
  ];
  await peer.connect(publish, []);
  const numbers = { next: 0 };
  const camera = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0", numbers });
  const microphone = new RtpSource({ ssrc: 8, payloadType: 111, mid: "1", numbers, audioLevel: 30 });
  const sent = { video: 0, audio: 0 };
  const startedAt = performance.now();
  const sending = setInterval(() => {
    const elapsedMs = performance.now() - startedAt;
    for (; sent.audio * AUDIO_MS < elapsedMs; sent.audio++)
      microphone.sendAudio(peer, new Uint8Array(audio[sent.audio % audio.length]?.payloads[0] ?? []));
    for (; sent.video * VIDEO_MS < elapsedMs; sent.video++) {
      const { payloads } = video[sent.video % video.length] as (typeof video)[number];
      camera.timestamp += 90 * VIDEO_MS;
      for (const [index, payload] of payloads.entries()) camera.send(peer, payload, index === payloads.length - 1);
    }
  }, 10);
  return {
    sent,
    async resume() {
      const { connectionId, resumption } = client;
      for (;;) {
        client = new SignalingClient({ url, token }, connectionId);
        try {
          return await client.join(resumption);
        } catch {
          await Bun.sleep(50);
        }
      }
    },
    close() {
      clearInterval(sending);
      peer.close();
      client.close();
    },
  };
}
