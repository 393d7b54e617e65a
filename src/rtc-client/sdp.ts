/** The offers of a client without a browser, and a parser for the fields of answers that it uses. */
import { createHash, X509Certificate } from "node:crypto";
import type { DtlsCertificate } from "../sfu/werift/werift-hooks.ts";
import { EXTENSION_URI } from "../sfu/wire/rtp/rtp-extensions.ts";

type OfferedCodec = "VP8" | "VP9" | "H264" | "AV1";

/** The payload types of each codec and of its retransmissions. */
const PAYLOAD_TYPES: Record<OfferedCodec, [media: number, rtx: number]> = {
  VP8: [96, 97],
  VP9: [98, 99],
  H264: [102, 103],
  AV1: [45, 46],
};

/** Opus and redundant audio. */
const AUDIO_PAYLOAD_TYPES = [111, 63];
const MEDIA_PAYLOAD_TYPES = new Set([...AUDIO_PAYLOAD_TYPES, ...Object.values(PAYLOAD_TYPES).map(([media]) => media)]);

/** Whether the packet is original media, and not a retransmission or bandwidth probe. */
export function carriesMedia(packet: Uint8Array): boolean {
  return MEDIA_PAYLOAD_TYPES.has((packet[1] ?? 0) & 0x7f);
}

export type PeerSection = {
  kind: "audio" | "video";
  direction: "sendonly" | "recvonly";
  /** The RIDs of simulcast, if there is more than one. */
  rids?: string[];
  ssrc?: number;
  codec?: OfferedCodec;
  /** The codecs that a receiver can decode; only `codec` by default. */
  codecs?: readonly OfferedCodec[];
  /** Offers redundant audio (RED) in addition to Opus. */
  red?: boolean;
  /** The feedback with which a receiver reports bandwidth; transport-cc by default. */
  feedback?: "transport-cc" | "goog-remb";
};

export const EXTENSION_IDS = { mid: 1, rid: 2, repairedRid: 3, transportSequence: 4, audioLevel: 5, absSendTime: 6 };

type Identity = {
  sessionId: string;
  ice: { ufrag: string; pwd: string };
  certificate: DtlsCertificate;
  /** Adds a media section for data channels after the others. */
  hasData?: boolean;
};

/** The section of data channels keeps its name when others are added before it. */
const DATA_MID = "data";

export function writeOffer(
  sections: readonly PeerSection[],
  { sessionId, ice, certificate, hasData = false }: Identity,
): string {
  const digest = createHash("sha256").update(new X509Certificate(certificate.certPem).raw).digest("hex");
  const fingerprint = (digest.match(/../g) ?? []).join(":").toUpperCase();
  const lines = [
    "v=0",
    `o=- ${sessionId} 2 IN IP4 127.0.0.1`,
    "s=-",
    "t=0 0",
    `a=group:BUNDLE ${[...sections.keys(), ...(hasData ? [DATA_MID] : [])].join(" ")}`,
  ];
  const transportLines = [
    `a=ice-ufrag:${ice.ufrag}`,
    `a=ice-pwd:${ice.pwd}`,
    `a=fingerprint:sha-256 ${fingerprint}`,
    "a=setup:actpass",
  ];
  sections.forEach((section, i) => {
    const audio = section.kind === "audio";
    const codecs = section.codecs ?? [section.codec ?? "VP8"];
    // A single codec always uses the payload types of VP8.
    const numbered = codecs.map((codec) => ({
      codec,
      numbers: codecs.length === 1 ? PAYLOAD_TYPES.VP8 : PAYLOAD_TYPES[codec],
    }));
    const video = numbered.flatMap(({ numbers }) => numbers).join(" ");
    const payloadTypes = audio ? (section.red ? "63 111" : "111") : video;
    lines.push(
      `m=${section.kind} 9 UDP/TLS/RTP/SAVPF ${payloadTypes}`,
      "c=IN IP4 0.0.0.0",
      `a=mid:${i}`,
      `a=${section.direction}`,
      ...transportLines,
      "a=rtcp-mux",
      ...extensionLines(section),
      ...(audio
        ? audioLines(section.red ?? false)
        : numbered.flatMap(({ codec, numbers }) => videoLines(codec, numbers, section.feedback ?? "transport-cc"))),
    );
    for (const rid of section.rids ?? []) lines.push(`a=rid:${rid} send`);
    if (section.rids && section.rids.length > 1) lines.push(`a=simulcast:send ${section.rids.join(";")}`);
    if (section.ssrc !== undefined) lines.push(`a=ssrc:${section.ssrc} cname:stoa`);
  });
  if (hasData) {
    lines.push("m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "c=IN IP4 0.0.0.0", `a=mid:${DATA_MID}`);
    lines.push(...transportLines, "a=sctp-port:5000");
  }
  return `${lines.join("\r\n")}\r\n`;
}

function extensionLines({ feedback }: PeerSection): string[] {
  const names = (Object.keys(EXTENSION_IDS) as (keyof typeof EXTENSION_IDS)[]).filter(
    (name) => name !== "transportSequence" || feedback !== "goog-remb",
  );
  return names.map((name) => `a=extmap:${EXTENSION_IDS[name]} ${EXTENSION_URI[name]}`);
}

function audioLines(red: boolean): string[] {
  const opus = ["a=rtpmap:111 opus/48000/2", "a=fmtp:111 minptime=10;useinbandfec=1"];
  return red ? [...opus, "a=rtpmap:63 red/48000/2", "a=fmtp:63 111/111"] : opus;
}

function videoLines(codec: OfferedCodec, [media, rtx]: [number, number], feedback: string): string[] {
  const fmtp =
    codec === "H264" ? [`a=fmtp:${media} level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f`] : [];
  return [
    `a=rtpmap:${media} ${codec}/90000`,
    ...fmtp,
    `a=rtcp-fb:${media} nack`,
    `a=rtcp-fb:${media} nack pli`,
    `a=rtcp-fb:${media} ccm fir`,
    `a=rtcp-fb:${media} ${feedback}`,
    `a=rtpmap:${rtx} rtx/90000`,
    `a=fmtp:${rtx} apt=${media}`,
  ];
}

/** A media section of the server's answer: codecs by payload type, and the SSRCs that the server sends. */
export type SectionAnswer = { codecs: Map<number, string>; ssrcs: number[] };

export function readAnswer(sdp: string): SectionAnswer[] {
  const [, ...sections] = sdp.split(/^m=/m);
  return sections.map((section) => ({
    codecs: new Map(
      [...section.matchAll(/^a=rtpmap:(\d+) ([^/\s]+)/gm)].map(([, number, name = ""]) => [
        Number(number),
        name === "opus" ? "opus" : name === "rtx" ? "rtx" : name.toUpperCase(),
      ]),
    ),
    ssrcs: [...new Set([...section.matchAll(/^a=ssrc:(\d+)/gm)].map(([, ssrc]) => Number(ssrc)))],
  }));
}
