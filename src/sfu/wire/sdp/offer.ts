/**
 * Reads a client's offer into plain data. Nothing here decides anything; `answer.ts` does. Every list has a bound that is
 * checked before it grows, and nothing is looked for in a list: what an offer costs grows with its length and no faster.
 */
import { SDP_MAX_BYTES } from "../../../protocol/signaling.ts";
import { MAX, named, type OfferedSection, readSection, refuse, room, type SectionLines } from "./offer-section.ts";

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
