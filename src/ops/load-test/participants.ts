import type { Track } from "../../protocol/room-records.ts";
import { RtcPeer } from "../../rtc-client/peer.ts";
import { RtpSource } from "../../rtc-client/rtp-source.ts";
import { SignalingClient } from "../../rtc-client/signaling-client.ts";
import { createCertificate, type DtlsCertificate } from "../../sfu/werift/werift-hooks.ts";

const PACKET_BYTES = 1_000;
const PACKETS_PER_FRAME = 2;
const FRAME_EVERY_MS = 33;
const KEYFRAME_EVERY = 60;
/** The offset of the sending time in a payload, after the bytes that a server reads. */
const STAMP_AT = 100;
/** Far more than the load needs, so that the server's bandwidth estimate does not reduce it. */
const REMB_BPS = 50_000_000;
const REMB_EVERY_MS = 500;

type JoinOptions = {
  url: string;
  token: string;
  certificate: DtlsCertificate;
  /** Replaces the IP address in the server's SDP answer, to send packets through a proxy. */
  via?: (sdp: string) => Promise<string>;
  onClose?: (code: number) => void;
};
export type LoadParticipant = { leave(): Promise<void> };
export type Publisher = LoadParticipant & { trackId: Promise<string>; packetsSent(): number };

export const makeCertificate = createCertificate;

async function joinRoom(
  { url, token, certificate, via, onClose }: JoinOptions,
  direction: "sendonly" | "recvonly",
  sections: number,
) {
  const published = new Map<string, Track>();
  const wanted = { keyframe: true };
  const client = new SignalingClient({
    url,
    token,
    onPush: (push) => {
      if (push.type === "track.published") published.set(push.identity, push.track);
    },
    onClose,
  });
  await client.join();
  const feedback = "goog-remb" as const;
  const negotiate: typeof client.negotiate = async (offer) => {
    const answer = await client.negotiate(offer);
    return { ...answer, sdp: via ? await via(answer.sdp) : answer.sdp };
  };
  const peer = await RtcPeer.create({
    node: { negotiate },
    roomId: "",
    participantId: "",
    certificate,
    hostname: "0.0.0.0",
    sections: Array.from({ length: sections }, () => ({ kind: "video" as const, direction, feedback })),
    onRtp: (view) => onRtp?.(view.data, view.payloadOffset),
    onRtcp: ({ type }) => {
      if (type === "pli" || type === "fir") wanted.keyframe = true;
    },
  });
  let onRtp: ((data: Uint8Array, payloadOffset: number) => void) | null = null;
  const listen = (listener: NonNullable<typeof onRtp>) => {
    onRtp = listener;
  };
  const leave = async () => {
    peer.close();
    await client.leave();
  };
  return { client, peer, published, wanted, leave, listen };
}

/** Sends one video of about half a megabit a second; each packet has its sending time. */
export async function joinPublisher(options: JoinOptions): Promise<Publisher> {
  const { client, peer, published, wanted, leave } = await joinRoom(options, "sendonly", 1);
  await peer.connect([{ mid: "0", clientTrackId: "load", kind: "video", source: "camera" }], []);
  const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  const payload = new Uint8Array(PACKET_BYTES);
  const stamp = new DataView(payload.buffer, STAMP_AT, 8);
  let frames = 0;
  let sent = 0;
  const timer = setInterval(() => {
    source.timestamp = (source.timestamp + 3_000) >>> 0;
    const key = wanted.keyframe || frames % KEYFRAME_EVERY === 0 ? 0x10 : 0x11;
    wanted.keyframe = false;
    frames++;
    for (let i = 0; i < PACKETS_PER_FRAME; i++) {
      payload.set([i === 0 ? 0x90 : 0x80, 0x80, 0x80, 0x01, key, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01]);
      stamp.setFloat64(0, performance.now());
      source.send(peer, payload, i === PACKETS_PER_FRAME - 1);
      sent++;
    }
  }, FRAME_EVERY_MS);
  const identity = client.ack?.participant.identity ?? "";
  return {
    trackId: (async () => {
      while (!published.has(identity)) await Bun.sleep(20);
      return published.get(identity)?.id ?? "";
    })(),
    packetsSent: () => sent,
    async leave() {
      clearInterval(timer);
      await leave();
    },
  };
}

/** Subscribes to the tracks; `onPacket` gets each packet's sending time and size. */
export async function joinSubscriber(
  options: JoinOptions,
  trackIds: readonly string[],
  onPacket: (sentAtMs: number, bytes: number) => void,
): Promise<LoadParticipant> {
  const { peer, leave, listen } = await joinRoom(options, "recvonly", trackIds.length);
  const first = Promise.withResolvers<void>();
  listen((data, payloadOffset) => {
    first.resolve();
    if (data.length < payloadOffset + STAMP_AT + 8) return;
    const sentAtMs = new DataView(data.buffer, data.byteOffset + payloadOffset + STAMP_AT, 8).getFloat64(0);
    if (sentAtMs > 0) onPacket(sentAtMs, data.length);
  });
  await peer.connect(
    [],
    trackIds.map((trackId, mid) => ({ mid: String(mid), trackId, layer: "high" as const })),
  );
  peer.sendRemb(REMB_BPS);
  const timer = setInterval(() => peer.sendRemb(REMB_BPS), REMB_EVERY_MS);
  await first.promise;
  return {
    async leave() {
      clearInterval(timer);
      await leave();
    },
  };
}
