/** Which codecs and header extensions Stoa carries, and how one side's payload type finds its counterpart on another. */
import type { MediaCodec } from "../codec/keyframe.ts";
import type { OfferedCodec, OfferedSection } from "./offer.ts";

export type CodecName = "opus" | "red" | "PCMU" | "PCMA" | "VP8" | "VP9" | "H264" | "AV1";

/** A codec of one section as both sides agreed on it. */
export type NegotiatedCodec = {
  codec: CodecName;
  payloadType: number;
  rtxPayloadType: number | null;
  clockRate: number;
  /** What must be equal for one side's stream to be readable by the other: H.264 packetization, VP9 and AV1 profile. */
  variant: string;
  /** H.264 `profile-level-id` without its level; empty for others. */
  profile: string;
};

const AUDIO: readonly CodecName[] = ["opus", "red", "PCMU", "PCMA"];
const VIDEO: readonly CodecName[] = ["VP8", "VP9", "H264", "AV1"];

const BY_NAME = new Map<string, CodecName>([...AUDIO, ...VIDEO].map((name) => [name.toLowerCase(), name]));

export function codecName(offered: OfferedCodec): CodecName | null {
  return BY_NAME.get(offered.name.toLowerCase()) ?? null;
}

export function fmtpValue(fmtp: string, key: string): string | null {
  for (const part of fmtp.split(";")) {
    const [name, value] = part.trim().split("=");
    if (name?.toLowerCase() === key) return value ?? "";
  }
  return null;
}

/** The codecs of a section that Stoa carries, in the client's order of preference, with their RTX. */
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
  return byPreference.flatMap((offered) => {
    const codec = codecName(offered);
    if (!codec || !allowed.includes(codec) || !(offered.clockRate > 0)) return [];
    return [
      {
        codec,
        payloadType: offered.payloadType,
        rtxPayloadType: rtxOf.get(offered.payloadType) ?? null,
        clockRate: offered.clockRate,
        variant: variantOf(codec, offered.fmtp),
        profile:
          codec === "H264" ? (fmtpValue(offered.fmtp, "profile-level-id") ?? "42e01f").slice(0, 4).toLowerCase() : "",
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
 * The payload type under which a viewer can read a publisher's stream. H.264 profiles differ between browsers while their
 * decoders read all of them, so another profile is taken before none; another packetization or VP9 profile never is.
 */
export function matchCodec(published: NegotiatedCodec, receivable: readonly NegotiatedCodec[]): NegotiatedCodec | null {
  const same = receivable.filter((c) => c.codec === published.codec && c.variant === published.variant);
  return same.find((c) => c.profile === published.profile) ?? same[0] ?? null;
}

/** How the packets of a codec are read on their way through. */
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
