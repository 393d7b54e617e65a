/** A summary of `getStats`; a value is null while it is unknown. */
export type RoomStats = {
  /** The round-trip time to the server. */
  rttMs: number | null;
  /** The path of the media: `udp`, `tcp` or `relay`. */
  path: "udp" | "tcp" | "relay" | null;
  /** The browser's estimate of the available outgoing bandwidth, in bits per second. */
  availableOutBps: number | null;
  /** The current outgoing bitrate. */
  outBps: number | null;
  /** The current incoming bitrate. */
  inBps: number | null;
  /** One entry per stream; a published video has one per simulcast layer. */
  tracks: TrackStats[];
};

/** The statistics of one sent or received stream. */
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

/** Rates are computed from the previous call, so the first call has none. */
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
      // The pair is used because Firefox does not count bytes for the transport.
      outBps: pair ? rate(pair, "bytesSent") : null,
      inBps: pair ? rate(pair, "bytesReceived") : null,
      tracks: entries
        .filter(({ type }) => type === "inbound-rtp" || type === "outbound-rtp")
        .map((entry) => trackStats(entry, now, rate)),
    };
  }
}

/** Older versions of Firefox have no transport statistics and mark the selected pair instead. */
function pairInUse(entries: Entry[]): Entry | undefined {
  const transport = entries.find(({ type }) => type === "transport");
  if (transport) return entries.find(({ id }) => id === transport.selectedCandidatePairId);
  return entries.find(({ type, selected }) => type === "candidate-pair" && selected === true);
}

/** The round-trip time from the server's receiver reports, for browsers that do not report it for the pair. */
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
