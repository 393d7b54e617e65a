/** Writes the answer: ICE-lite, DTLS-passive, one bundled transport, all candidates included without trickle. */
import { type NegotiatedCodec, negotiateCodecs } from "./codecs.ts";
import {
  dropCollidingExtensions,
  extensionLines,
  type NegotiatedExtensions,
  negotiateExtensions,
} from "./extensions.ts";
import type { Direction, Fingerprint, Offer, OfferedCodec, OfferedSection } from "./offer.ts";

/**
 * The rate in kbit/s from which Chromium estimates its uplink. Its default of 300 leaves the higher layers out for seconds;
 * feedback corrects a rate that is too high within one second.
 */
const START_BITRATE = "x-google-start-bitrate=1000";
const VIDEO_CODECS: ReadonlySet<string> = new Set(["VP8", "VP9", "H264", "AV1"]);

/** The SSRCs on which the server sends in a section; fixed for the section's life, whatever its tracks. */
export type OutgoingStream = { ssrc: number; rtxSsrc: number };

export type AnsweredSection = {
  mid: string;
  kind: "audio" | "video" | "application";
  rejected: boolean;
  /** From the server's point of view. */
  sends: boolean;
  receives: boolean;
  codecs: NegotiatedCodec[];
  extensions: NegotiatedExtensions;
};

/** Decides what both sides do on each section of the offer. The server sends only on sections in `sending`, if given. */
export function decideSections(offer: Offer, sending?: ReadonlySet<string>): AnsweredSection[] {
  const sections = offer.sections.map((section) => {
    const codecs = section.kind === "application" ? [] : negotiateCodecs(section);
    const rejected = section.rejected || (section.kind !== "application" && codecs.length === 0);
    return {
      mid: section.mid,
      kind: section.kind,
      rejected,
      sends:
        !rejected &&
        (section.direction === "recvonly" || section.direction === "sendrecv") &&
        (sending?.has(section.mid) ?? true),
      receives: !rejected && (section.direction === "sendonly" || section.direction === "sendrecv"),
      codecs,
      extensions: negotiateExtensions(section),
    };
  });
  dropCollidingExtensions(sections.filter((section) => !section.rejected).map((section) => section.extensions));
  return sections;
}

export type AnswerParts = {
  offer: Offer;
  sections: readonly AnsweredSection[];
  /** By mid, for sections on which the server sends. */
  outgoing: ReadonlyMap<string, OutgoingStream>;
  /** Values of `a=msid` by mid, where the caller has one. */
  streams?: ReadonlyMap<string, string>;
  sessionId: string;
  version: number;
  ice: { ufrag: string; pwd: string };
  fingerprint: Fingerprint;
  /** Values of `a=candidate`, best first. */
  candidates: readonly string[];
  maxMessageSize: number;
};

export function writeAnswer(parts: AnswerParts): string {
  const { offer, sections } = parts;
  const bundle = sections.filter((section) => !section.rejected).map((section) => section.mid);
  const lines = [
    "v=0",
    `o=- ${parts.sessionId} ${parts.version} IN IP4 127.0.0.1`,
    "s=-",
    "t=0 0",
    `a=group:BUNDLE ${bundle.join(" ")}`,
    "a=ice-lite",
    "a=msid-semantic: WMS *",
  ];
  if (offer.extmapAllowMixed) lines.push("a=extmap-allow-mixed");
  const position = { audio: 0, video: 0 };
  offer.sections.forEach((offered, i) => {
    const section = sections[i];
    if (!section) return;
    if (section.rejected) {
      lines.push(
        `m=${offered.kind} 0 ${offered.protocol} ${offered.formats.join(" ")}`,
        "c=IN IP4 0.0.0.0",
        `a=mid:${section.mid}`,
      );
      if (offered.kind !== "application") lines.push("a=inactive");
      return;
    }
    const first = section.mid === bundle[0];
    if (section.kind === "application") lines.push(...applicationLines(offered, parts));
    else lines.push(...mediaLines(offered, section, parts, section.sends ? position[section.kind]++ : 0));
    lines.push(...transportLines(parts, first));
  });
  return `${lines.join("\r\n")}\r\n`;
}

function transportLines(parts: AnswerParts, withCandidates: boolean): string[] {
  const lines = [
    `a=ice-ufrag:${parts.ice.ufrag}`,
    `a=ice-pwd:${parts.ice.pwd}`,
    `a=fingerprint:${parts.fingerprint.algorithm} ${parts.fingerprint.value}`,
    "a=setup:passive",
  ];
  if (!withCandidates) return lines;
  return [...lines, ...parts.candidates.map((candidate) => `a=candidate:${candidate}`), "a=end-of-candidates"];
}

function applicationLines(offered: OfferedSection, parts: AnswerParts): string[] {
  return [
    `m=application 9 ${offered.protocol} ${offered.formats.join(" ")}`,
    "c=IN IP4 0.0.0.0",
    `a=mid:${offered.mid}`,
    "a=sctp-port:5000",
    `a=max-message-size:${parts.maxMessageSize}`,
  ];
}

function directionOf(section: AnsweredSection): Direction {
  if (section.sends && section.receives) return "sendrecv";
  if (section.sends) return "sendonly";
  return section.receives ? "recvonly" : "inactive";
}

function mediaLines(offered: OfferedSection, section: AnsweredSection, parts: AnswerParts, position: number): string[] {
  const payloadTypes = section.codecs.flatMap((c) =>
    c.rtxPayloadType === null ? [c.payloadType] : [c.payloadType, c.rtxPayloadType],
  );
  const lines = [
    `m=${offered.kind} 9 ${offered.protocol} ${payloadTypes.join(" ")}`,
    "c=IN IP4 0.0.0.0",
    "a=rtcp:9 IN IP4 0.0.0.0",
    `a=mid:${section.mid}`,
    ...extensionLines(section.extensions),
    `a=${directionOf(section)}`,
    "a=rtcp-mux",
    "a=rtcp-rsize",
  ];
  const offeredCodecs = new Map(offered.codecs.map((codec) => [codec.payloadType, codec]));
  for (const payloadType of payloadTypes) {
    const codec = offeredCodecs.get(payloadType);
    if (codec) lines.push(...codecLines(codec, section));
  }
  if (section.receives && offered.sendRids.length > 0) {
    for (const rid of offered.sendRids) lines.push(`a=rid:${rid} recv`);
    lines.push(`a=simulcast:recv ${offered.sendRids.join(";")}`);
  }
  const stream = section.sends ? parts.outgoing.get(section.mid) : undefined;
  if (stream) lines.push(...streamLines(stream, section, position, parts.streams?.get(section.mid)));
  return lines;
}

function codecLines(codec: OfferedCodec, section: AnsweredSection): string[] {
  const { payloadType } = codec;
  const channels = codec.channels === null ? "" : `/${codec.channels}`;
  const lines = [`a=rtpmap:${payloadType} ${codec.name}/${codec.clockRate}${channels}`];
  const parameters = [
    codec.fmtp,
    ...(section.receives && VIDEO_CODECS.has(codec.name.toUpperCase()) ? [START_BITRATE] : []),
  ];
  const fmtp = parameters.filter(Boolean).join(";");
  if (fmtp) lines.push(`a=fmtp:${payloadType} ${fmtp}`);
  const offered = new Set(codec.feedback);
  for (const feedback of ["nack", "nack pli", "ccm fir"])
    if (offered.has(feedback)) lines.push(`a=rtcp-fb:${payloadType} ${feedback}`);
  // Both ends of a section measure the path alike: transport-wide feedback where it is offered, else the receiver's estimate.
  const transportWide = offered.has("transport-cc") && section.extensions.transportSequence > 0;
  if (transportWide) lines.push(`a=rtcp-fb:${payloadType} transport-cc`);
  else if (offered.has("goog-remb")) lines.push(`a=rtcp-fb:${payloadType} goog-remb`);
  return lines;
}

/**
 * The n-th receiving audio section and the n-th receiving video section share a stream, because browsers keep the tracks of one
 * stream synchronous: a client puts the audio and video of one participant on the same position.
 */
function streamLines(
  stream: OutgoingStream,
  section: AnsweredSection,
  position: number,
  name = `stoa-${position} ${section.kind}-${position}`,
): string[] {
  const withRtx = section.codecs.some((codec) => codec.rtxPayloadType !== null);
  const ssrcs = withRtx ? [stream.ssrc, stream.rtxSsrc] : [stream.ssrc];
  const lines = [`a=msid:${name}`];
  if (withRtx) lines.push(`a=ssrc-group:FID ${ssrcs.join(" ")}`);
  for (const ssrc of ssrcs) lines.push(`a=ssrc:${ssrc} cname:${name.split(" ", 1)[0]}`);
  return lines;
}
