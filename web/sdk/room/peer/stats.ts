/** What `getStats` says, in the few figures a person asks for. Null: not known yet. */
export type RoomStats = {
  /** To the server and back. */
  rttMs: number | null;
  /** The way that media takes: `udp`, `tcp` or `relay`. */
  path: "udp" | "tcp" | "relay" | null;
  /** What the browser thinks the uplink can carry. */
  availableOutBps: number | null;
  /** Sent now, in bits a second. */
  outBps: number | null;
  /** Received now, in bits a second. */
  inBps: number | null;
  /** One for each stream; a published picture has one for each of its sizes. */
  tracks: TrackStats[];
};

/** Of one stream, sent or received. */
export type TrackStats = {
  direction: "in" | "out";
  kind: string;
  mid: string | null;
  rid: string | null;
  codec: string | null;
  bps: number | null;
  width: number | null;
  height: number | null;
  fps: number | null;
  packetsLost: number | null;
  jitterMs: number | null;
  freezes: number | null;
};

type Entry = Record<string, number | string | boolean | undefined> & { id: string; type: string; timestamp: number };

/** Rates are differences between two calls, so the first call knows none. */
export class StatsReader {
  #before = new Map<string, Entry>();

  async read(pc: RTCPeerConnection): Promise<RoomStats> {
    const now = new Map<string, Entry>();
    for (const [id, entry] of await pc.getStats()) now.set(id as string, entry as Entry);
    const before = this.#before;
    this.#before = now;

    const rate = (entry: Entry, field: string): number | null => {
      const last = before.get(entry.id);
      const seconds = last ? (entry.timestamp - last.timestamp) / 1000 : 0;
      if (!last || seconds <= 0) return null;
      return Math.round(((Number(entry[field] ?? 0) - Number(last[field] ?? 0)) * 8) / seconds);
    };
    const entries = [...now.values()];
    const pair = pairInUse(entries);
    const local = entries.find(({ id }) => id === pair?.localCandidateId);
    return {
      rttMs: scaled(pair?.currentRoundTripTime ?? reportedRoundTrip(entries), 1000),
      path: local ? (local.candidateType === "relay" ? "relay" : (local.protocol as "udp" | "tcp")) : null,
      availableOutBps: scaled(pair?.availableOutgoingBitrate, 1),
      // Of the pair, because Firefox counts no bytes for the transport as a whole.
      outBps: pair ? rate(pair, "bytesSent") : null,
      inBps: pair ? rate(pair, "bytesReceived") : null,
      tracks: entries
        .filter(({ type }) => type === "inbound-rtp" || type === "outbound-rtp")
        .map((entry) => trackStats(entry, now, rate)),
    };
  }
}

/** Firefox has told of the transport only lately; before that it marked the pair itself. */
function pairInUse(entries: Entry[]): Entry | undefined {
  const transport = entries.find(({ type }) => type === "transport");
  if (transport) return entries.find(({ id }) => id === transport.selectedCandidatePairId);
  return entries.find(({ type, selected }) => type === "candidate-pair" && selected === true);
}

/** Where the pair does not say it: by the server's own reports. */
function reportedRoundTrip(entries: Entry[]): number | undefined {
  const reported = entries.filter(
    ({ type, roundTripTime }) => type === "remote-inbound-rtp" && roundTripTime !== undefined,
  );
  return reported.length === 0 ? undefined : Math.min(...reported.map(({ roundTripTime }) => Number(roundTripTime)));
}

function trackStats(
  entry: Entry,
  all: Map<string, Entry>,
  rate: (entry: Entry, field: string) => number | null,
): TrackStats {
  const inbound = entry.type === "inbound-rtp";
  const codec = all.get(String(entry.codecId))?.mimeType;
  return {
    direction: inbound ? "in" : "out",
    kind: String(entry.kind),
    mid: entry.mid === undefined ? null : String(entry.mid),
    rid: entry.rid === undefined ? null : String(entry.rid),
    codec: codec === undefined ? null : (String(codec).split("/")[1] ?? null),
    bps: rate(entry, inbound ? "bytesReceived" : "bytesSent"),
    width: scaled(entry.frameWidth, 1),
    height: scaled(entry.frameHeight, 1),
    fps: scaled(entry.framesPerSecond, 1),
    packetsLost: scaled(entry.packetsLost, 1),
    jitterMs: scaled(entry.jitter, 1000),
    freezes: scaled(entry.freezeCount, 1),
  };
}

function scaled(value: unknown, factor: number): number | null {
  return typeof value === "number" ? Math.round(value * factor * 10) / 10 : null;
}
