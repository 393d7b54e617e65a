/** What a viewer misses because of the server: the gaps that it sees, less what the sender was late by itself. */
import type { Watched } from "./call-member.ts";
import type { Gap, Stream } from "./wire.ts";

/** The time between two frames of the senders. */
const FRAME_MS = 40;

/** The longest gap of a video, as it passed the wire, and less the lateness of its sender. */
export type Seen = { ms: number; byServerMs: number };

/** `others` are the gaps of videos whose senders do not use UDP. How late those are is not known. */
export function gapsOf(watched: readonly Watched[], streams: readonly Stream[]): { direct: Seen[]; others: number[] } {
  const received = new Map(streams.filter(({ isSent }) => !isSent).map((one) => [`${one.port} ${one.ssrc}`, one]));
  const sent = Map.groupBy(
    streams.filter(({ isSent }) => isSent),
    ({ port }) => port,
  );
  const seen = watched.map(({ port, ssrc, sourcePort }) => {
    const stream = received.get(`${port} ${ssrc}`);
    if (!stream) throw new Error(`no packet of the video ${ssrc} arrived at port ${port}`);
    const { longestMs: ms, gaps } = stream;
    const late = (sent.get(sourcePort) ?? []).flatMap((source) => source.gaps);
    const byServer = gaps.map((gap) => lengthOf(gap) - latenessDuring(gap, late));
    return { sourcePort, ms, byServerMs: gaps.length > 0 ? Math.max(FRAME_MS, ...byServer) : ms };
  });
  return {
    direct: seen.filter(({ sourcePort }) => sourcePort !== 0),
    others: seen.filter(({ sourcePort }) => sourcePort === 0).map(({ ms }) => ms),
  };
}

const lengthOf = ({ from, to }: Gap) => to - from;

/** By how much the frame that ends the gap, or one during it, was sent too late. */
function latenessDuring(gap: Gap, sources: readonly Gap[]): number {
  const during = sources.filter(({ to }) => to > gap.from && to <= gap.to);
  return Math.max(0, ...during.map((one) => lengthOf(one) - FRAME_MS));
}
