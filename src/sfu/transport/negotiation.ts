/** Checks the requested tracks of an offer against its sections and the permissions of the participant. Pure: data in, data out. */

import { mayPublish } from "../../protocol/may-publish.ts";
import { MediaError, type NamedSection, type Negotiate, type PlacedSection } from "../../protocol/media-node.ts";
import type { Permissions } from "../../protocol/room-records.ts";
import type { AnsweredSection } from "../wire/sdp/answer.ts";

type Wanted = {
  publish: NamedSection[];
  /** With `auto`, the tracks of the room fill the receiving sections as they are published (WHEP). */
  subscribe: PlacedSection[] | "auto";
  voices: NonNullable<Negotiate["voices"]>;
};

const NO_VOICES: Wanted["voices"] = { mids: [], except: [] };

function refuse(message: string): MediaError {
  return new MediaError("NEGOTIATION_FAILED", message);
}

export function planNegotiation(
  sections: readonly AnsweredSection[],
  asked: { publish?: NamedSection[]; subscribe?: PlacedSection[]; voices?: Negotiate["voices"] },
  permissions: Permissions,
): Wanted {
  const byMid = new Map(sections.map((section) => [section.mid, section]));
  const publish = asked.publish ?? publishAll(sections);
  const subscribe = asked.subscribe ?? "auto";
  checkDistinct(publish.map((wanted) => wanted.mid));
  for (const wanted of publish) {
    const section = byMid.get(wanted.mid);
    if (!section?.receives || section.kind !== wanted.kind) {
      throw refuse(`The offer sends no ${wanted.kind} on section ${wanted.mid}.`);
    }
    if (!mayPublish(permissions, wanted.kind, wanted.source)) {
      throw new MediaError(
        "PERMISSION_DENIED",
        `This token does not permit publishing ${wanted.kind} from ${wanted.source}.`,
      );
    }
  }
  // The section is used as soon as the participant may subscribe.
  if (subscribe === "auto") return { publish, subscribe, voices: NO_VOICES };
  const voices = asked.voices ?? NO_VOICES;
  if (subscribe.length + voices.mids.length > 0 && !permissions.subscribe) {
    throw new MediaError("PERMISSION_DENIED", "This token does not permit subscribing.");
  }
  checkDistinct([...subscribe.map((wanted) => wanted.mid), ...voices.mids]);
  checkDistinct(subscribe.map((wanted) => wanted.trackId));
  for (const wanted of subscribe) {
    if (!byMid.get(wanted.mid)?.sends) throw refuse(`The offer receives nothing on section ${wanted.mid}.`);
  }
  for (const mid of voices.mids) {
    const section = byMid.get(mid);
    if (!section?.sends || section.kind !== "audio") throw refuse(`The offer receives no audio on section ${mid}.`);
  }
  return { publish, subscribe, voices };
}

/** A plain WHIP offer names no tracks: it sends a microphone and a camera. */
function publishAll(sections: readonly AnsweredSection[]): NamedSection[] {
  return sections.flatMap((section) => {
    if (!section.receives || section.kind === "application") return [];
    const source = section.kind === "audio" ? "microphone" : "camera";
    return [{ mid: section.mid, clientTrackId: section.mid, kind: section.kind, source }];
  });
}

function checkDistinct(names: string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw refuse(`${name} is named twice.`);
    seen.add(name);
  }
}
