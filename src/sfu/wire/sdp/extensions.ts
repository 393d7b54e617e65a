/** Header extensions: those the packet path reads or writes itself, and those it carries from publisher to viewer. */
import { EXTENSION_URI, type ExtensionIds } from "../rtp/rtp-extensions.ts";
import type { Direction, OfferedSection } from "./offer.ts";

/** Carried unread: a phone's orientation, AV1's dependency descriptor, the publisher's wish for a short playout delay. */
export const PASSED_URIS = {
  orientation: "urn:3gpp:video-orientation",
  dependencyDescriptor: "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension",
  playoutDelay: "http://www.webrtc.org/experiments/rtp-hdrext/playout-delay",
} as const;

export type PassedName = keyof typeof PASSED_URIS;
/** 0 means not negotiated. */
export type NegotiatedExtensions = ExtensionIds & Record<PassedName, number>;

const ALL = { ...EXTENSION_URI, ...PASSED_URIS } as const;
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
    if (offered && isOfUse(offered.direction, section.direction)) negotiated[name] = offered.id;
  }
  return negotiated;
}

/**
 * All sections share one transport: there an id means one extension, and an extension has one id (RFC 8843 §9.2). Some clients
 * offer otherwise, and cannot read their own offer in the answer; the first section that uses an id keeps it.
 */
export function leaveOutCollisions(sections: readonly NegotiatedExtensions[]): void {
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

/** Firefox lists on what it receives also what it can only send; sent to it, a dependency descriptor stops its decoder. */
function isOfUse(extension: Direction, section: Direction): boolean {
  return extension === "sendrecv" || section === "sendrecv" || extension === section;
}

/**
 * Rids on every section, although they only make sense on what the client sends: Chromium leaves an extension that was
 * not answered once out of its later offers, and a camera that is switched on after the join could not simulcast.
 */
export function extensionLines(extensions: NegotiatedExtensions): string[] {
  return NAMES.flatMap((name) => (extensions[name] === 0 ? [] : [`a=extmap:${extensions[name]} ${ALL[name]}`]));
}
