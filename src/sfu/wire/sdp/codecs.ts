/** Codec negotiation, and the match of a publisher's codec with one of a subscriber. */
import type { MediaCodec } from "../codec/keyframe.ts";
import type { OfferedCodec, OfferedSection } from "./offer.ts";

type CodecName = "opus" | "red" | "PCMU" | "PCMA" | "VP8" | "VP9" | "H264" | "AV1";

/** A negotiated codec of one section. */
export type NegotiatedCodec = {
  codec: CodecName;
  payloadType: number;
  rtxPayloadType: number | null;
  clockRate: number;
  /** Must be equal for a subscriber to decode the stream: H.264 packetization mode, VP9 and AV1 profile. */
  variant: string;
  /** H.264 `profile-level-id` without its level; empty for other codecs. */
  profile: string;
  /** The client sends lost packets again, or requests them. */
  nack: boolean;
};

const AUDIO: readonly CodecName[] = ["opus", "red", "PCMU", "PCMA"];
const VIDEO: readonly CodecName[] = ["VP8", "VP9", "H264", "AV1"];

const BY_NAME = new Map<string, CodecName>([...AUDIO, ...VIDEO].map((name) => [name.toLowerCase(), name]));

function codecName(offered: OfferedCodec): CodecName | null {
  return BY_NAME.get(offered.name.toLowerCase()) ?? null;
}

/** Rates as links between media nodes take them. With any other, a recording's times could be infinite. */
const isClockRate = (rate: number): boolean => Number.isInteger(rate) && rate >= 8_000 && rate <= 192_000;

function fmtpValue(fmtp: string, key: string): string | null {
  for (const part of fmtp.split(";")) {
    const [name, value] = part.trim().split("=");
    if (name?.toLowerCase() === key) return value ?? "";
  }
  return null;
}

/** The supported codecs of a section in the client's order of preference, with their RTX payload types. */
export function negotiateCodecs(section: OfferedSection): NegotiatedCodec[] {
  const allowed = section.kind === "audio" ? AUDIO : VIDEO;
  const rtxOf = new Map<number, number>();
  for (const offered of section.codecs) {
    if (offered.name.toLowerCase() !== "rtx") continue;
    const primary = Number(fmtpValue(offered.fmtp, "apt") ?? Number.NaN);
    if (!rtxOf.has(primary)) rtxOf.set(primary, offered.payloadType);
  }
  const byPayloadType = new Map(section.codecs.map((offered) => [offered.payloadType, offered]));
  const byPreference = [...new Set(section.formats)].flatMap((format) => byPayloadType.get(Number(format)) ?? []);
  // RED has no feedback of its own: its packets are those of Opus.
  const opus = byPreference.find((offered) => codecName(offered) === "opus");
  return byPreference.flatMap((offered) => {
    const codec = codecName(offered);
    if (!codec || !allowed.includes(codec) || !isClockRate(offered.clockRate)) return [];
    return [
      {
        codec,
        payloadType: offered.payloadType,
        rtxPayloadType: rtxOf.get(offered.payloadType) ?? null,
        clockRate: offered.clockRate,
        variant: variantOf(codec, offered.fmtp),
        profile:
          codec === "H264" ? (fmtpValue(offered.fmtp, "profile-level-id") ?? "42e01f").slice(0, 4).toLowerCase() : "",
        nack: ((codec === "red" ? opus : offered) ?? offered).feedback.includes("nack"),
      },
    ];
  });
}

function variantOf(codec: CodecName, fmtp: string): string {
  if (codec === "H264") return fmtpValue(fmtp, "packetization-mode") ?? "0";
  if (codec === "VP9") return fmtpValue(fmtp, "profile-id") ?? "0";
  if (codec === "AV1") return fmtpValue(fmtp, "profile") ?? "0";
  return "";
}

/**
 * The subscriber's codec for a publisher's stream. Browsers offer different H.264 profiles but decode all of them, so another
 * profile is better than none; another packetization mode or VP9 profile is not.
 */
export function matchCodec(published: NegotiatedCodec, receivable: readonly NegotiatedCodec[]): NegotiatedCodec | null {
  const same = receivable.filter((c) => c.codec === published.codec && c.variant === published.variant);
  return same.find((c) => c.profile === published.profile) ?? same[0] ?? null;
}

/** The codec by which packets are parsed. */
export function mediaCodecOf(codec: NegotiatedCodec | null): MediaCodec {
  switch (codec?.codec) {
    case "VP8":
      return "vp8";
    case "VP9":
      return "vp9";
    case "H264":
      return "h264";
    case "AV1":
      return "av1";
    default:
      return "audio";
  }
}
