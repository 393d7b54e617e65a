/** Reads a client's offer into plain data. Nothing here decides anything; `answer.ts` does. */
import { MediaError } from "../../protocol/media-node.ts";

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
export type OfferedExtension = { id: number; direction: Direction };

export type Fingerprint = { algorithm: string; value: string };

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

const DIRECTIONS: ReadonlySet<string> = new Set<Direction>(["sendrecv", "sendonly", "recvonly", "inactive"]);
/** More than any client needs; a bound for what one frame can make the server do. */
const MAX_SECTIONS = 512;

function refuse(message: string): MediaError {
  return new MediaError("NEGOTIATION_FAILED", message);
}

export function parseOffer(sdp: string): Offer {
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
  let section: OfferedSection | null = null;
  let bundleOnly = false;
  for (const line of rtpmapsFirst(sdp.split(/\r?\n/))) {
    if (line.length < 2 || line[1] !== "=") continue;
    const value = line.slice(2);
    if (line[0] === "o") offer.sessionId = value.split(" ")[1] ?? "";
    if (line[0] === "m") {
      if (offer.sections.length === MAX_SECTIONS) throw refuse(`An offer holds at most ${MAX_SECTIONS} sections.`);
      section = newSection(value);
      bundleOnly = false;
      offer.sections.push(section);
    }
    if (line[0] !== "a") continue;
    const colon = value.indexOf(":");
    const name = colon < 0 ? value : value.slice(0, colon);
    const rest = colon < 0 ? "" : value.slice(colon + 1);
    if (name === "bundle-only" && section) {
      bundleOnly = true;
      section.rejected = false;
    } else if (!readTransportAttribute(offer, name, rest) && section) {
      readSectionAttribute(section, name, rest);
    }
    if (bundleOnly && section) section.rejected = false;
  }
  return checked(offer);
}

/** Parameters and feedback belong to a codec that Firefox names only after them; the order of attributes means nothing. */
function rtpmapsFirst(lines: string[]): string[] {
  const ordered: string[] = [];
  let later: string[] = [];
  for (const line of [...lines, "m="]) {
    if (line.startsWith("m=")) {
      ordered.push(...later);
      later = [];
    }
    if (/^a=(fmtp|rtcp-fb|ssrc):/.test(line)) later.push(line);
    else ordered.push(line);
  }
  return ordered.slice(0, -1);
}

function checked(offer: Offer): Offer {
  if (offer.sections.length === 0) throw refuse("The offer has no media section.");
  if (!offer.iceUfrag || !offer.icePwd) throw refuse("The offer has no ICE credentials.");
  if (offer.fingerprints.length === 0) throw refuse("The offer has no certificate fingerprint.");
  if (offer.setup === "passive") throw refuse("The offer must be willing to start DTLS (setup:actpass or active).");
  const mids = new Set(offer.sections.map((section) => section.mid));
  if (mids.size !== offer.sections.length || mids.has("")) throw refuse("Every section needs a mid of its own.");
  const outside = offer.sections.find((section) => !section.rejected && !offer.bundle.includes(section.mid));
  if (outside && offer.sections.length > 1) throw refuse("All sections must be bundled.");
  return offer;
}

function newSection(mLine: string): OfferedSection {
  const [kind = "", port, protocol = "", ...formats] = mLine.split(" ");
  if (kind !== "audio" && kind !== "video" && kind !== "application") throw refuse(`Unknown media kind in m=${mLine}.`);
  return {
    kind,
    mid: "",
    rejected: port === "0",
    direction: "sendrecv",
    protocol,
    formats,
    codecs: [],
    extensions: new Map(),
    sendRids: [],
    ssrcs: new Map(),
    sctpPort: null,
  };
}

/** ICE and DTLS belong to the one bundled transport, wherever they are written. */
function readTransportAttribute(offer: Offer, name: string, rest: string): boolean {
  switch (name) {
    case "ice-ufrag":
      offer.iceUfrag ||= rest;
      return true;
    case "ice-pwd":
      offer.icePwd ||= rest;
      return true;
    case "setup":
      offer.setup = rest;
      return true;
    case "fingerprint": {
      const [algorithm = "", value = ""] = rest.split(" ");
      const known = offer.fingerprints.some(
        (f) => f.algorithm === algorithm.toLowerCase() && f.value === value.toUpperCase(),
      );
      if (!known) offer.fingerprints.push({ algorithm: algorithm.toLowerCase(), value: value.toUpperCase() });
      return true;
    }
    case "group":
      if (rest.startsWith("BUNDLE ")) offer.bundle = rest.slice(7).split(" ");
      return true;
    case "extmap-allow-mixed":
      offer.extmapAllowMixed = true;
      return true;
    default:
      return false;
  }
}

function readSectionAttribute(section: OfferedSection, name: string, rest: string): void {
  if (DIRECTIONS.has(name)) {
    section.direction = name as Direction;
    return;
  }
  const [first = "", ...tail] = rest.split(" ");
  const second = tail.join(" ");
  switch (name) {
    case "mid":
      section.mid = rest;
      break;
    case "rtpmap": {
      const [codec = "", clockRate, channels] = second.split("/");
      section.codecs.push({
        payloadType: Number(first),
        name: codec,
        clockRate: Number(clockRate),
        channels: channels ? Number(channels) : null,
        fmtp: "",
        feedback: [],
      });
      break;
    }
    case "fmtp":
      for (const codec of section.codecs) if (codec.payloadType === Number(first)) codec.fmtp = second;
      break;
    case "rtcp-fb":
      for (const codec of section.codecs) {
        if (first === "*" || codec.payloadType === Number(first)) codec.feedback.push(second);
      }
      break;
    case "extmap": {
      const uri = tail[0];
      const [number, direction = "sendrecv"] = first.split("/");
      const id = Number(number);
      // Ids above 14 need two-byte headers, which nobody offers first; they are simply not used.
      if (uri && id >= 1 && id <= 14 && DIRECTIONS.has(direction))
        section.extensions.set(uri, { id, direction: direction as Direction });
      break;
    }
    case "rid":
      if (tail[0] === "send" && !section.sendRids.includes(first)) section.sendRids.push(first);
      break;
    case "simulcast":
      orderRids(section, rest);
      break;
    case "ssrc":
      if (!isRepair(section, Number(first)) && !section.ssrcs.has(Number(first)))
        section.ssrcs.set(Number(first), null);
      break;
    case "ssrc-group":
      if (first === "FID" && tail[0]) section.ssrcs.set(Number(tail[0]), Number(tail[1] ?? 0) || null);
      break;
    case "sctp-port":
      section.sctpPort = Number(rest);
      break;
  }
}

function isRepair(section: OfferedSection, ssrc: number): boolean {
  for (const rtx of section.ssrcs.values()) if (rtx === ssrc) return true;
  return false;
}

/** `send q;h;~f recv …`: the order counts, paused and alternative marks do not. */
function orderRids(section: OfferedSection, rest: string): void {
  const words = rest.split(" ");
  const at = words.indexOf("send");
  if (at < 0) return;
  const order = (words[at + 1] ?? "").split(/[;,]/).map((rid) => rid.replace("~", ""));
  section.sendRids = order.filter((rid) => section.sendRids.includes(rid));
}
