type Entry = { type: string; timestamp: number; packetsReceived?: number; packetsSent?: number };

/** Whether anything is on its way between the two ends. */
export type Flow = "flows" | "silent" | "idle";

/**
 * Tells media that flows from a connection that is merely up. Packets that arrive are a sign, and so are the server's
 * reports about what we send; with nothing to send there may be nothing to hear, and silence says nothing.
 */
export class FlowMeter {
  #received = 0;
  #sent = 0;
  #reportedAt = 0;

  async read(pc: RTCPeerConnection): Promise<Flow> {
    let [received, sent, reportedAt] = [0, 0, 0];
    for (const [, value] of await pc.getStats()) {
      const entry = value as Entry;
      if (entry.type === "inbound-rtp") received += entry.packetsReceived ?? 0;
      if (entry.type === "outbound-rtp") sent += entry.packetsSent ?? 0;
      if (entry.type === "remote-inbound-rtp") reportedAt = Math.max(reportedAt, entry.timestamp);
    }
    const heard = received > this.#received || reportedAt > this.#reportedAt;
    const sending = sent > this.#sent;
    [this.#received, this.#sent, this.#reportedAt] = [received, sent, reportedAt];
    return heard ? "flows" : sending ? "silent" : "idle";
  }
}
