/**
 * Parses a client's offer; `answer.ts` decides about it. Every list has a limit that is checked before it grows, and no list is
 * searched, so the cost of an offer is linear in its length.
 */

import { MediaError } from "../../../protocol/media-node.ts";
import { SDP_MAX_BYTES } from "../../../protocol/signaling.ts";

export type Fingerprint = { algorithm: string; value: string };

export type Offer = {
  /** From the `o=` line; another value means another peer connection. */
  sessionId: string;
  iceUfrag: string;
  icePwd: string;
  fingerprints: Fingerprint[];
  setup: string;
  bundle: string[];
  extmapAllowMixed: boolean;
  sections: OfferedSection[];
};

const MAX_FINGERPRINTS = 8;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** With `certificate` "later" the offer may lack a fingerprint, because a later offer has it. */
export function parseOffer(sdp: string, certificate: "now" | "later" = "now"): Offer {
  if (Buffer.byteLength(sdp) > SDP_MAX_BYTES) throw negotiationFailed(`An offer has at most ${SDP_MAX_BYTES} bytes.`);
  const offer: Offer = {
    sessionId: "",
    iceUfrag: "",
    icePwd: "",
    fingerprints: [],
    setup: "actpass",
    bundle: [],
    extmapAllowMixed: false,
    sections: [],
  };
  const sections: SectionLines[] = [];
  const fingerprints = new Map<string, Fingerprint>();
  for (const line of linesOf(Buffer.from(sdp))) {
    if (line[1] !== "=") continue;
    const value = line.slice(2);
    if (line[0] === "o") offer.sessionId = boundedName(value.split(" ", 2)[1] ?? "");
    if (line[0] === "m") {
      requireSpace(sections.length, "sections");
      sections.push({ mLine: value, attributes: [] });
    }
    if (line[0] !== "a") continue;
    const colon = value.indexOf(":");
    const name = colon < 0 ? value : value.slice(0, colon);
    const rest = colon < 0 ? "" : value.slice(colon + 1);
    if (!readTransportAttribute(offer, fingerprints, name, rest)) sections.at(-1)?.attributes.push({ name, rest });
  }
  offer.fingerprints = [...fingerprints.values()];
  offer.sections = sections.map(readSection);
  if (offer.fingerprints.length === 0 && certificate === "now")
    throw negotiationFailed("The offer has no certificate fingerprint.");
  validate(offer);
  return offer;
}

/** A part of a string keeps the whole of it in memory, so each line becomes a string of its own. */
function* linesOf(sdp: Buffer): Iterable<string> {
  for (let at = 0; at < sdp.length; ) {
    const newline = sdp.indexOf(LINE_FEED, at);
    const end = newline < 0 ? sdp.length : newline;
    yield sdp.toString("utf8", at, sdp[end - 1] === CARRIAGE_RETURN ? end - 1 : end);
    at = end + 1;
  }
}

function validate(offer: Offer): void {
  if (offer.sections.length === 0) throw negotiationFailed("The offer has no media section.");
  if (!offer.iceUfrag || !offer.icePwd) throw negotiationFailed("The offer has no ICE credentials.");
  if (offer.setup === "passive")
    throw negotiationFailed("The offer must be willing to start DTLS (setup:actpass or active).");
  const mids = new Set(offer.sections.map((section) => section.mid));
  if (mids.size !== offer.sections.length || mids.has(""))
    throw negotiationFailed("Every section needs a mid of its own.");
  const bundled = new Set(offer.bundle);
  const outside = offer.sections.find((section) => !section.rejected && !bundled.has(section.mid));
  if (outside && offer.sections.length > 1) throw negotiationFailed("All sections must be bundled.");
}

/** ICE and DTLS attributes belong to the one bundled transport, in whichever section they are. */
function readTransportAttribute(
  offer: Offer,
  fingerprints: Map<string, Fingerprint>,
  name: string,
  rest: string,
): boolean {
  switch (name) {
    case "ice-ufrag":
      offer.iceUfrag ||= boundedName(rest);
      return true;
    case "ice-pwd":
      offer.icePwd ||= boundedName(rest);
      return true;
    case "setup":
      offer.setup = boundedName(rest);
      return true;
    case "fingerprint": {
      const [algorithm = "", value = ""] = boundedName(rest).split(" ", 2);
      const fingerprint = { algorithm: algorithm.toLowerCase(), value: value.toUpperCase() };
      fingerprints.set(`${fingerprint.algorithm} ${fingerprint.value}`, fingerprint);
      if (fingerprints.size > MAX_FINGERPRINTS) throw negotiationFailed("The offer has too many fingerprints.");
      return true;
    }
    case "group":
      if (rest.startsWith("BUNDLE ")) offer.bundle = rest.slice(7).split(" ", LIMITS.sections);
      return true;
    case "extmap-allow-mixed":
      offer.extmapAllowMixed = true;
      return true;
    default:
      return false;
  }
}

export type Direction = "sendrecv" | "sendonly" | "recvonly" | "inactive";

export type OfferedCodec = {
  payloadType: number;
  /** As in the offer, for example `VP8`, `opus` or `rtx`. */
  name: string;
  clockRate: number;
  channels: number | null;
  fmtp: string;
  feedback: string[];
};

/** The direction is the client's: it does not read extensions that it marks `sendonly`. */
type OfferedExtension = { id: number; direction: Direction };

export type OfferedSection = {
  kind: "audio" | "video" | "application";
  mid: string;
  /** Offered with port 0 and not as bundle-only. */
  rejected: boolean;
  direction: Direction;
  protocol: string;
  formats: string[];
  codecs: OfferedCodec[];
  /** By URI. */
  extensions: Map<string, OfferedExtension>;
  /** The rids that the client sends, in the order of its `a=simulcast` line. */
  sendRids: string[];
  /** RTX SSRCs by primary SSRC; null without RTX. */
  ssrcs: Map<number, number | null>;
  sctpPort: number | null;
};

const DIRECTIONS: ReadonlySet<string> = new Set<Direction>(["sendrecv", "sendonly", "recvonly", "inactive"]);
/** More than any client needs. A connection's offers keep all sections it ever had; payload types have seven bits. */
const LIMITS = {
  sections: 512,
  formats: 128,
  codecs: 128,
  feedback: 32,
  extensions: 64,
  rids: 16,
  ssrcs: 128,
} as const;
/** For names and credentials; RFC 8839 allows 256 characters for the latter. */
const MAX_NAME_CHARACTERS = 256;

function negotiationFailed(message: string): MediaError {
  return new MediaError("NEGOTIATION_FAILED", message);
}

type Attribute = { name: string; rest: string };
type SectionLines = { mLine: string; attributes: Attribute[] };

/** Throws when a list of `size` entries is full. */
function requireSpace(size: number, list: keyof typeof LIMITS): void {
  if (size >= LIMITS[list]) throw negotiationFailed(`The offer has too many ${list}: at most ${LIMITS[list]}.`);
}

function boundedName(value: string): string {
  if (value.length > MAX_NAME_CHARACTERS)
    throw negotiationFailed(`A name in the offer is longer than ${MAX_NAME_CHARACTERS}.`);
  return value;
}

function newSection(mLine: string): OfferedSection {
  const [kind = "", port, protocol = "", ...formats] = mLine.split(" ", LIMITS.formats + 4);
  if (kind !== "audio" && kind !== "video" && kind !== "application") {
    throw negotiationFailed(`Unknown media kind in m=${mLine.slice(0, 40)}.`);
  }
  if (formats.length > LIMITS.formats)
    throw negotiationFailed(`The offer has too many formats: at most ${LIMITS.formats}.`);
  return {
    kind,
    mid: "",
    rejected: port === "0",
    direction: "sendrecv",
    protocol: boundedName(protocol),
    formats: formats.map(boundedName),
    codecs: [],
    extensions: new Map(),
    sendRids: [],
    ssrcs: new Map(),
    sctpPort: null,
  };
}

/** Attributes that belong to a codec which Firefox may name only after them: the order of attributes has no meaning. */
const CODEC_ATTRIBUTES: ReadonlySet<string> = new Set(["fmtp", "rtcp-fb", "ssrc"]);

function readSection({ mLine, attributes }: SectionLines): OfferedSection {
  const section = newSection(mLine);
  const codecs = new Map<number, OfferedCodec>();
  const codecAttributes: Attribute[] = [];
  for (const attribute of attributes) {
    if (CODEC_ATTRIBUTES.has(attribute.name)) codecAttributes.push(attribute);
    else readSectionAttribute(section, codecs, attribute);
  }
  section.codecs = [...codecs.values()];
  const repairs = new Set(section.ssrcs.values());
  for (const { name, rest } of codecAttributes) {
    const [first, second] = splitAtSpace(rest);
    const number = Number(first);
    if (name === "ssrc") {
      if (repairs.has(number) || section.ssrcs.has(number) || !isSsrc(number)) continue;
      requireSpace(section.ssrcs.size, "ssrcs");
      section.ssrcs.set(number, null);
    } else if (name === "fmtp") {
      const codec = codecs.get(number);
      if (codec) codec.fmtp = second;
    } else if (first === "*") {
      for (const codec of section.codecs) addFeedback(codec, second);
    } else {
      const codec = codecs.get(number);
      if (codec) addFeedback(codec, second);
    }
  }
  return section;
}

function addFeedback(codec: OfferedCodec, feedback: string): void {
  requireSpace(codec.feedback.length, "feedback");
  codec.feedback.push(feedback);
}

function isSsrc(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number <= 0xffff_ffff;
}

/** Splits at the first space. */
function splitAtSpace(text: string): [string, string] {
  const space = text.indexOf(" ");
  return space < 0 ? [text, ""] : [text.slice(0, space), text.slice(space + 1)];
}

function readSectionAttribute(
  section: OfferedSection,
  codecs: Map<number, OfferedCodec>,
  { name, rest }: Attribute,
): void {
  if (DIRECTIONS.has(name)) {
    section.direction = name as Direction;
    return;
  }
  const [first, second] = splitAtSpace(rest);
  switch (name) {
    case "mid":
      section.mid = boundedName(rest);
      break;
    case "bundle-only":
      section.rejected = false;
      break;
    case "rtpmap": {
      const payloadType = Number(first);
      if (!Number.isInteger(payloadType) || payloadType < 0 || payloadType > 127 || codecs.has(payloadType)) break;
      requireSpace(codecs.size, "codecs");
      const [codec = "", clockRate, channels] = boundedName(second).split("/", 3);
      codecs.set(payloadType, {
        payloadType,
        name: codec,
        clockRate: Number(clockRate),
        channels: channels ? Number(channels) : null,
        fmtp: "",
        feedback: [],
      });
      break;
    }
    case "extmap":
      readExtension(section, first, second);
      break;
    case "rid":
      if (splitAtSpace(second)[0] !== "send" || section.sendRids.includes(first)) break;
      requireSpace(section.sendRids.length, "rids");
      section.sendRids.push(boundedName(first));
      break;
    case "simulcast":
      orderRids(section, rest);
      break;
    case "ssrc-group": {
      const [primary, repair] = second.split(" ", 2).map(Number);
      if (first !== "FID" || primary === undefined || !isSsrc(primary)) break;
      if (!section.ssrcs.has(primary)) requireSpace(section.ssrcs.size, "ssrcs");
      section.ssrcs.set(primary, repair && isSsrc(repair) ? repair : null);
      break;
    }
    case "sctp-port":
      section.sctpPort = Number(rest);
      break;
  }
}

function readExtension(section: OfferedSection, first: string, second: string): void {
  const uri = splitAtSpace(second)[0];
  const [number, direction = "sendrecv"] = first.split("/", 2);
  const id = Number(number);
  // Ids above 14 need two-byte headers; no client requires them, so they are not used.
  if (!uri || !(id >= 1 && id <= 14) || !DIRECTIONS.has(direction)) return;
  if (!section.extensions.has(uri)) requireSpace(section.extensions.size, "extensions");
  section.extensions.set(boundedName(uri), { id, direction: direction as Direction });
}

/** Reads `send q;h;~f recv …` for its order; marks for paused and alternative rids are ignored. */
function orderRids(section: OfferedSection, rest: string): void {
  const words = rest.split(" ", 8);
  const at = words.indexOf("send");
  if (at < 0) return;
  const order = (words[at + 1] ?? "").split(/[;,]/, LIMITS.rids + 1).map((rid) => rid.replace("~", ""));
  if (order.length > LIMITS.rids) throw negotiationFailed(`The offer has too many rids: at most ${LIMITS.rids}.`);
  const known = new Set(section.sendRids);
  section.sendRids = [...new Set(order)].filter((rid) => known.has(rid));
}
