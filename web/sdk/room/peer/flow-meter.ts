type Entry = {
  type: string;
  timestamp: number;
  packetsReceived?: number;
  packetsSent?: number;
  bytesReceived?: number;
};

/** Whether anything is on its way between the two ends. */
export type Flow = "flows" | "silent" | "idle";

/** Of readings: who has heard nothing but checks in so many expects nothing else. */
const FLOWS_FOR = 3;

/**
 * Tells media that flows from a connection that is merely up. Packets that arrive are a sign, and so are the server's
 * reports about what we send; with nothing to send there may be nothing to hear, and silence says nothing.
 */
export class FlowMeter {
  #received = 0;
  #sent = 0;
  #reportedAt = 0;
  #bytes = 0;
  /** Readings since media came, of those in which anything did. */
  #aliveWithout = Number.POSITIVE_INFINITY;
  #withoutSign = 0;
  /** Nothing at all has come since the reading before, not even a check of the connection, though media has flowed until then. */
  isCutOff = false;

  /** Reports are about a second apart: with readings as close as that, this many in a row may be without a sign. */
  constructor(readonly tolerated = 0) {}

  async read(pc: RTCPeerConnection): Promise<Flow> {
    let [received, sent, reportedAt, bytes] = [0, 0, 0, 0];
    for (const [, value] of await pc.getStats()) {
      const entry = value as Entry;
      if (entry.type === "inbound-rtp") received += entry.packetsReceived ?? 0;
      if (entry.type === "outbound-rtp") sent += entry.packetsSent ?? 0;
      if (entry.type === "remote-inbound-rtp") reportedAt = Math.max(reportedAt, entry.timestamp);
      if (entry.type === "candidate-pair") bytes += entry.bytesReceived ?? 0;
    }
    const heard = received > this.#received || reportedAt > this.#reportedAt;
    this.#withoutSign = heard ? 0 : this.#withoutSign + 1;
    const sending = sent > this.#sent;
    const isAlive = heard || bytes > this.#bytes;
    if (isAlive) this.#aliveWithout = heard ? 0 : this.#aliveWithout + 1;
    // The last thing to come may be a check.
    this.isCutOff = !isAlive && this.#aliveWithout < FLOWS_FOR;
    [this.#received, this.#sent, this.#reportedAt, this.#bytes] = [received, sent, reportedAt, bytes];
    return this.#withoutSign <= this.tolerated ? "flows" : sending ? "silent" : "idle";
  }
}
