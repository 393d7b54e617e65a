/** What a node carries right now. */
export type NodeLoad = {
  rooms: number;
  participants: number;
  /** Of all cores, by the node's whole process, or of its busiest worker, whichever is more; null until it is known. */
  cpuPercent: number | null;
  memoryPercent: number | null;
  networkInBps: number;
  networkOutBps: number;
  packetsIn: number;
  packetsOut: number;
  /** Packets that viewers missed (in) and that we missed of publishers (out), and keyframes asked for likewise. */
  nacksIn: number;
  nacksOut: number;
  keyframesIn: number;
  keyframesOut: number;
  /** Packets refused since the start, by reason: forged checks, foreign addresses, replays, unreadable ones. */
  refused: Record<string, number>;
};
