type Entry = {
  type: string;
  timestamp: number;
  packetsReceived?: number;
  packetsSent?: number;
  bytesReceived?: number;
};

/** `silent` means that nothing arrives although this side sends; `idle` means that neither side sends. */
export type Flow = "flows" | "silent" | "idle";

/** Media has flowed recently if it arrived within this many readings. */
const RECENT_READINGS = 3;

/**
 * Tells a connection on which media flows from one that is merely up. Received packets prove it, and so do the server's
 * receiver reports. Silence proves nothing while this side sends nothing.
 */
export class FlowMeter {
  #received = 0;
  #sent = 0;
  #reportedAt = 0;
  #bytes = 0;
  /** The number of readings with any traffic since media last arrived. */
  #aliveReadingsWithoutMedia = Number.POSITIVE_INFINITY;
  #readingsWithoutMedia = 0;
  /** Whether nothing has arrived since the last reading, not even a connectivity check, although media flowed before. */
  isCutOff = false;

  /** Receiver reports are about a second apart, so frequent readings tolerate this many without media in a row. */
  constructor(readonly toleratedReadings = 0) {}

  async read(pc: RTCPeerConnection): Promise<Flow> {
    let [received, sent, reportedAt, bytes] = [0, 0, 0, 0];
    for (const [, value] of await pc.getStats()) {
      const entry = value as Entry;
      if (entry.type === "inbound-rtp") received += entry.packetsReceived ?? 0;
      if (entry.type === "outbound-rtp") sent += entry.packetsSent ?? 0;
      if (entry.type === "remote-inbound-rtp") reportedAt = Math.max(reportedAt, entry.timestamp);
      if (entry.type === "candidate-pair") bytes += entry.bytesReceived ?? 0;
    }
    const hasMedia = received > this.#received || reportedAt > this.#reportedAt;
    this.#readingsWithoutMedia = hasMedia ? 0 : this.#readingsWithoutMedia + 1;
    const isSending = sent > this.#sent;
    const isAlive = hasMedia || bytes > this.#bytes;
    if (isAlive) this.#aliveReadingsWithoutMedia = hasMedia ? 0 : this.#aliveReadingsWithoutMedia + 1;
    // The last packet before the cut may have been a connectivity check.
    this.isCutOff = !isAlive && this.#aliveReadingsWithoutMedia < RECENT_READINGS;
    [this.#received, this.#sent, this.#reportedAt, this.#bytes] = [received, sent, reportedAt, bytes];
    return this.#readingsWithoutMedia <= this.toleratedReadings ? "flows" : isSending ? "silent" : "idle";
  }
}
