/**
 * Finds the stream of a packet: by MID, then RID, then the SSRCs of the offer. Browsers stop sending MID and RID after the first
 * report, so a learned SSRC is kept for the life of the connection.
 */

import type { RtpView } from "../wire/rtp/rtp.ts";
import type { RtpExtensions } from "../wire/rtp/rtp-extensions.ts";

type StreamName = {
  mid: string;
  /** Null for a stream without simulcast. */
  rid: string | null;
  /** The stream carries retransmissions of the stream with the same MID and RID. */
  repair: boolean;
};

/** A sending section of the offer. */
export type DemuxSection = {
  mid: string;
  payloadTypes: ReadonlySet<number>;
  repairPayloadTypes: ReadonlySet<number>;
  /** RTX SSRCs by primary SSRC; null without RTX. */
  ssrcs: ReadonlyMap<number, number | null>;
  rids: readonly string[];
};

/** A browser sends three layers and their RTX per section; more SSRCs than this are an attack or a bug. */
const MAX_STREAMS = 512;

export class Demux {
  readonly #streams = new Map<number, StreamName>();
  #sections: readonly DemuxSection[] = [];

  negotiated(sections: readonly DemuxSection[]): void {
    this.#sections = sections;
    for (const { mid, ssrcs, rids } of sections) {
      if (rids.length > 0) continue;
      for (const [ssrc, rtx] of ssrcs) {
        this.#learn(ssrc, { mid, rid: null, repair: false });
        if (rtx !== null) this.#learn(rtx, { mid, rid: null, repair: true });
      }
    }
  }

  find(ssrc: number): StreamName | undefined {
    return this.#streams.get(ssrc);
  }

  /** Identifies a new SSRC; returns undefined while nothing identifies it. */
  identify(view: RtpView, extensions: RtpExtensions): StreamName | undefined {
    const section = this.#sectionOf(view, extensions.mid);
    if (!section) return undefined;
    const rid = extensions.repairedRid ?? extensions.rid ?? null;
    if (section.rids.length > 0 && (rid === null || !section.rids.includes(rid))) return undefined;
    const repair = extensions.repairedRid !== undefined || section.repairPayloadTypes.has(view.payloadType);
    return this.#learn(view.ssrc, { mid: section.mid, rid: section.rids.length > 0 ? rid : null, repair });
  }

  #sectionOf(view: RtpView, mid: string | undefined): DemuxSection | undefined {
    if (mid !== undefined) return this.#sections.find((section) => section.mid === mid);
    const candidates = this.#sections.filter(
      (section) => section.payloadTypes.has(view.payloadType) || section.repairPayloadTypes.has(view.payloadType),
    );
    return candidates.length === 1 ? candidates[0] : undefined;
  }

  #learn(ssrc: number, name: StreamName): StreamName | undefined {
    if (this.#streams.size >= MAX_STREAMS && !this.#streams.has(ssrc)) return undefined;
    this.#streams.set(ssrc, name);
    return name;
  }
}
