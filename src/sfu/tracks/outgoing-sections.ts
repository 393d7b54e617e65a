/** The sections on which one viewer receives, from one negotiation to the next. */
import { MediaError } from "../../protocol/media-node.ts";
import type { AnsweredSection, OutgoingStream } from "../wire/sdp/answer.ts";
import { OutgoingSection } from "./outgoing-section.ts";

export class OutgoingSections {
  readonly #byMid = new Map<string, OutgoingSection>();
  readonly #bySsrc = new Map<number, OutgoingSection>();

  get streams(): ReadonlyMap<string, OutgoingStream> {
    return new Map([...this.#byMid].map(([mid, section]) => [mid, section.stream]));
  }

  get usable(): OutgoingSection[] {
    return [...this.#byMid.values()].filter((section) => section.usable);
  }

  /** That the client has for now; what it has not is an error of its own. */
  at(mid: string): OutgoingSection {
    const section = this.#byMid.get(mid);
    if (!section?.usable) throw new MediaError("NEGOTIATION_FAILED", `The connection has no receiving section ${mid}.`);
    return section;
  }

  of(ssrc: number): OutgoingSection | undefined {
    return this.#bySsrc.get(ssrc);
  }

  /** `vacate`: nothing can be sent on that one any more. */
  negotiated(sections: readonly AnsweredSection[], vacate: (section: OutgoingSection) => void): void {
    const sending = new Map(sections.map((section) => [section.mid, section.sends]));
    const rested = new Set([...this.#byMid.values()].filter(({ usable }) => !usable));
    for (const [mid, section] of this.#byMid) {
      if (!sending.get(mid)) vacate(section);
      section.usable = sending.get(mid) ?? false;
      // An offer names every section its connection ever had: what it leaves out never comes back.
      if (!sending.has(mid)) this.#forget(section);
    }
    for (const section of sections) {
      if (!section.sends || section.kind === "application") continue;
      const known = this.#byMid.get(section.mid);
      // Browsers show nothing of a stream that comes back under the number it had before its section was inactive.
      if (known && rested.has(known)) this.#forget(known);
      if (known && !rested.has(known)) known.renegotiated(section);
      else {
        const outgoing = new OutgoingSection(section, section.kind);
        this.#byMid.set(section.mid, outgoing);
        this.#bySsrc.set(outgoing.stream.ssrc, outgoing);
      }
    }
  }

  #forget(section: OutgoingSection): void {
    this.#byMid.delete(section.mid);
    this.#bySsrc.delete(section.stream.ssrc);
  }

  clear(): void {
    this.#byMid.clear();
    this.#bySsrc.clear();
  }
}
