/** Negotiation of header extensions: those that the server reads or writes, and those that it forwards unread. */
import { EXTENSION_URI, type ExtensionIds } from "../rtp/rtp-extensions.ts";
import type { Direction, OfferedSection } from "./offer.ts";

/** Forwarded unread: a phone's orientation, AV1's dependency descriptor, the publisher's playout delay. */
export const FORWARDED_EXTENSION_URI = {
  orientation: "urn:3gpp:video-orientation",
  dependencyDescriptor: "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension",
  playoutDelay: "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay",
} as const;

export type ForwardedExtension = keyof typeof FORWARDED_EXTENSION_URI;
/** 0 means not negotiated. */
export type NegotiatedExtensions = ExtensionIds & Record<ForwardedExtension, number>;

const ALL = { ...EXTENSION_URI, ...FORWARDED_EXTENSION_URI } as const;
const NAMES = Object.keys(ALL) as (keyof typeof ALL)[];

export function noExtensions(): NegotiatedExtensions {
  return {
    mid: 0,
    rid: 0,
    repairedRid: 0,
    absSendTime: 0,
    transportSequence: 0,
    audioLevel: 0,
    orientation: 0,
    dependencyDescriptor: 0,
    playoutDelay: 0,
  };
}

export function negotiateExtensions(section: OfferedSection): NegotiatedExtensions {
  const negotiated = noExtensions();
  for (const name of NAMES) {
    const offered = section.extensions.get(ALL[name]);
    if (offered && isUsable(offered.direction, section.direction)) negotiated[name] = offered.id;
  }
  return negotiated;
}

/**
 * On one bundled transport an id means one extension, and an extension has one id (RFC 8843 §9.2). Some clients offer otherwise
 * and cannot parse an answer that repeats their offer, so the first section that uses an id keeps it.
 */
export function dropCollidingExtensions(sections: readonly NegotiatedExtensions[]): void {
  const nameOf = new Map<number, string>();
  const idOf = new Map<string, number>();
  for (const extensions of sections) {
    for (const name of NAMES) {
      const id = extensions[name];
      if (id === 0) continue;
      if ((nameOf.get(id) ?? name) === name && (idOf.get(name) ?? id) === id) {
        nameOf.set(id, name);
        idOf.set(name, id);
      } else extensions[name] = 0;
    }
  }
}

/**
 * On receiving sections, Firefox also offers extensions that it can only send. A dependency descriptor sent to Firefox stops its
 * decoder.
 */
function isUsable(extension: Direction, section: Direction): boolean {
  return extension === "sendrecv" || section === "sendrecv" || extension === section;
}

/**
 * Rids are answered on every section, although only the client's sending sections use them. Chromium drops an extension from later
 * offers if it was once not answered, and a camera switched on after the join could then not simulcast.
 */
export function extensionLines(extensions: NegotiatedExtensions): string[] {
  return NAMES.flatMap((name) => (extensions[name] === 0 ? [] : [`a=extmap:${extensions[name]} ${ALL[name]}`]));
}
