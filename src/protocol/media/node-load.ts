/** The current load of a media node. */
export type NodeLoad = {
  rooms: number;
  participants: number;
  /** The CPU usage of the whole process on all cores, or of its busiest worker, if higher; null if unknown. */
  cpuPercent: number | null;
  memoryPercent: number | null;
  networkInBps: number;
  networkOutBps: number;
  packetsIn: number;
  packetsOut: number;
  /** Packets and keyframes that subscribers (in) and this node (out) requested. */
  nacksIn: number;
  nacksOut: number;
  keyframesIn: number;
  keyframesOut: number;
  /**
   * Packets dropped since the start, by reason: forged connectivity checks, unknown source addresses, replays, invalid
   * packets.
   */
  refused: Record<string, number>;
  /** The links between its workers, and the streams that are being sent on them; absent from nodes of an older version. */
  relays?: { links: number; streams: number };
};
