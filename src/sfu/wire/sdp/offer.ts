/**
 * Reads a client's offer into plain data. Nothing here decides anything; `answer.ts` does. Every list has a bound that is
 * checked before it grows, and nothing is looked for in a list: what an offer costs grows with its length and no faster.
 */

import { MediaError } from "../../../protocol/media-node.ts";
import { SDP_MAX_BYTES } from "../../../protocol/signaling.ts";

export type Fingerprint = { algorithm: string; value: string };

export type Offer = {
  /** From the `o=` line: another value is another peer connection. */
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

/** `certificate` "later": it may lack a fingerprint, because another offer will name it. */
export function parseOffer(sdp: string, certificate: "now" | "later" = "now"): Offer {
  if (Buffer.byteLength(sdp) > SDP_MAX_BYTES) throw refuse(`An offer has at most ${SDP_MAX_BYTES} bytes.`);
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
  for (const line of sdp.split(/\r?\n/)) {
    if (line.length < 2 || line[1] !== "=") continue;
    const value = line.slice(2);
    if (line[0] === "o") offer.sessionId = named(value.split(" ", 2)[1] ?? "");
    if (line[0] === "m") {
      room(sections.length, "sections");
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
    throw refuse("The offer has no certificate fingerprint.");
  return checked(offer);
}

function checked(offer: Offer): Offer {
  if (offer.sections.length === 0) throw refuse("The offer has no media section.");
  if (!offer.iceUfrag || !offer.icePwd) throw refuse("The offer has no ICE credentials.");
  if (offer.setup === "passive") throw refuse("The offer must be willing to start DTLS (setup:actpass or active).");
  const mids = new Set(offer.sections.map((section) => section.mid));
  if (mids.size !== offer.sections.length || mids.has("")) throw refuse("Every section needs a mid of its own.");
  const bundled = new Set(offer.bundle);
  const outside = offer.sections.find((section) => !section.rejected && !bundled.has(section.mid));
  if (outside && offer.sections.length > 1) throw refuse("All sections must be bundled.");
  return offer;
}

/** ICE and DTLS belong to the one bundled transport, wherever they are written. */
function readTransportAttribute(
  offer: Offer,
  fingerprints: Map<string, Fingerprint>,
  name: string,
  rest: string,
): boolean {
  switch (name) {
    case "ice-ufrag":
      offer.iceUfrag ||= named(rest);
      return true;
    case "ice-pwd":
      offer.icePwd ||= named(rest);
      return true;
    case "setup":
      offer.setup = named(rest);
      return true;
    case "fingerprint": {
      const [algorithm = "", value = ""] = named(rest).split(" ", 2);
      const fingerprint = { algorithm: algorithm.toLowerCase(), value: value.toUpperCase() };
      fingerprints.set(`${fingerprint.algorithm} ${fingerprint.value}`, fingerprint);
      if (fingerprints.size > MAX_FINGERPRINTS) throw refuse("The offer has too many fingerprints.");
      return true;
    }
    case "group":
      if (rest.startsWith("BUNDLE ")) offer.bundle = rest.slice(7).split(" ", MAX.sections);
      return true;
    case "extmap-allow-mixed":
      offer.extmapAllowMixed = true;
      return true;
    default:
      return false;
  }
}

/** Reads one section of a client's offer, within bounds. */

export type Direction = "sendrecv" | "sendonly" | "recvonly" | "inactive";

export type OfferedCodec = {
  payloadType: number;
  /** As written in the offer, e.g. `VP8`, `opus`, `rtx`. */
  name: string;
  clockRate: number;
  channels: number | null;
  fmtp: string;
  feedback: string[];
};

/** The direction is the client's: what it marks `sendonly` it does not read. */
type OfferedExtension = { id: number; direction: Direction };

export type OfferedSection = {
  kind: "audio" | "video" | "application";
  mid: string;
  /** Offered with port 0 and not as bundle-only: it stays rejected. */
  rejected: boolean;
  direction: Direction;
  protocol: string;
  formats: string[];
  codecs: OfferedCodec[];
  /** By URI. */
  extensions: Map<string, OfferedExtension>;
  /** Rids the client sends, in the order of its `a=simulcast` line. */
  sendRids: string[];
  /** Signalled SSRCs: primary → its RTX, or null. */
  ssrcs: Map<number, number | null>;
  sctpPort: number | null;
};

const DIRECTIONS: ReadonlySet<string> = new Set<Direction>(["sendrecv", "sendonly", "recvonly", "inactive"]);
/** More of each than any client needs. Sections are all that a connection had in its life; payload types have seven bits. */
export const MAX = {
  sections: 512,
  formats: 128,
  codecs: 128,
  feedback: 32,
  extensions: 64,
  rids: 16,
  ssrcs: 128,
} as const;
/** Of what is kept of a line: names and credentials. RFC 8839 allows 256 characters for the latter. */
const MAX_NAME_CHARACTERS = 256;

export function refuse(message: string): MediaError {
  return new MediaError("NEGOTIATION_FAILED", message);
}

type Attribute = { name: string; rest: string };
type SectionLines = { mLine: string; attributes: Attribute[] };

/** Refuses the offer when a list of that many entries may not have another. */
export function room(size: number, list: keyof typeof MAX): void {
  if (size >= MAX[list]) throw refuse(`The offer has too many ${list}: at most ${MAX[list]}.`);
}

export function named(value: string): string {
  if (value.length > MAX_NAME_CHARACTERS) throw refuse(`A name in the offer is longer than ${MAX_NAME_CHARACTERS}.`);
  return value;
}

function newSection(mLine: string): OfferedSection {
  const [kind = "", port, protocol = "", ...formats] = mLine.split(" ", MAX.formats + 4);
  if (kind !== "audio" && kind !== "video" && kind !== "application") {
    throw refuse(`Unknown media kind in m=${mLine.slice(0, 40)}.`);
  }
  if (formats.length > MAX.formats) throw refuse(`The offer has too many formats: at most ${MAX.formats}.`);
  return {
    kind,
    mid: "",
    rejected: port === "0",
    direction: "sendrecv",
    protocol: named(protocol),
    formats: formats.map(named),
    codecs: [],
    extensions: new Map(),
    sendRids: [],
    ssrcs: new Map(),
    sctpPort: null,
  };
}

/** Parameters and feedback belong to a codec that Firefox names only after them; the order of attributes means nothing. */
const READ_LATER: ReadonlySet<string> = new Set(["fmtp", "rtcp-fb", "ssrc"]);

function readSection({ mLine, attributes }: SectionLines): OfferedSection {
  const section = newSection(mLine);
  const codecs = new Map<number, OfferedCodec>();
  const later: Attribute[] = [];
  for (const attribute of attributes) {
    if (READ_LATER.has(attribute.name)) later.push(attribute);
    else readSectionAttribute(section, codecs, attribute);
  }
  section.codecs = [...codecs.values()];
  const repairs = new Set(section.ssrcs.values());
  for (const { name, rest } of later) {
    const [first, second] = halves(rest);
    const number = Number(first);
    if (name === "ssrc") {
      if (repairs.has(number) || section.ssrcs.has(number) || !isSsrc(number)) continue;
      room(section.ssrcs.size, "ssrcs");
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
  room(codec.feedback.length, "feedback");
  codec.feedback.push(feedback);
}

function isSsrc(number: number): boolean {
  return Number.isInteger(number) && number >= 0 && number <= 0xffff_ffff;
}

/** Up to the first space, and what follows it. */
function halves(text: string): [string, string] {
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
  const [first, second] = halves(rest);
  switch (name) {
    case "mid":
      section.mid = named(rest);
      break;
    case "bundle-only":
      section.rejected = false;
      break;
    case "rtpmap": {
      const payloadType = Number(first);
      if (!Number.isInteger(payloadType) || payloadType < 0 || payloadType > 127 || codecs.has(payloadType)) break;
      room(codecs.size, "codecs");
      const [codec = "", clockRate, channels] = named(second).split("/", 3);
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
      if (halves(second)[0] !== "send" || section.sendRids.includes(first)) break;
      room(section.sendRids.length, "rids");
      section.sendRids.push(named(first));
      break;
    case "simulcast":
      orderRids(section, rest);
      break;
    case "ssrc-group": {
      const [primary, repair] = second.split(" ", 2).map(Number);
      if (first !== "FID" || primary === undefined || !isSsrc(primary)) break;
      if (!section.ssrcs.has(primary)) room(section.ssrcs.size, "ssrcs");
      section.ssrcs.set(primary, repair && isSsrc(repair) ? repair : null);
      break;
    }
    case "sctp-port":
      section.sctpPort = Number(rest);
      break;
  }
}

function readExtension(section: OfferedSection, first: string, second: string): void {
  const uri = halves(second)[0];
  const [number, direction = "sendrecv"] = first.split("/", 2);
  const id = Number(number);
  // Ids above 14 need two-byte headers, which nobody offers first; they are simply not used.
  if (!uri || !(id >= 1 && id <= 14) || !DIRECTIONS.has(direction)) return;
  if (!section.extensions.has(uri)) room(section.extensions.size, "extensions");
  section.extensions.set(named(uri), { id, direction: direction as Direction });
}

/** `send q;h;~f recv …`: the order counts, paused and alternative marks do not. */
function orderRids(section: OfferedSection, rest: string): void {
  const words = rest.split(" ", 8);
  const at = words.indexOf("send");
  if (at < 0) return;
  const order = (words[at + 1] ?? "").split(/[;,]/, MAX.rids + 1).map((rid) => rid.replace("~", ""));
  if (order.length > MAX.rids) throw refuse(`The offer has too many rids: at most ${MAX.rids}.`);
  const known = new Set(section.sendRids);
  section.sendRids = [...new Set(order)].filter((rid) => known.has(rid));
}
