/** Runs a flight record through the retransmission and bandwidth logic again, to show what was decided and why. */
import type { FlightDump } from "../../protocol/media/flight.ts";
import { BandwidthEstimator } from "../bandwidth/bandwidth-estimator.ts";
import { AUDIO_REPAIR, NackGenerator, VIDEO_REPAIR } from "../wire/rtcp/nack-generator.ts";
import { Reception } from "../wire/rtcp/reception.ts";
import { parseRtcp, type RtcpPacket } from "../wire/rtcp/rtcp.ts";
import { SentPackets, TransportFeedback } from "../wire/rtcp/twcc-feedback.ts";

type Decision = { atMs: number; about: string; decided: string; why: string };
type StreamFigures = {
  ssrc: number;
  name: string;
  packets: number;
  lost: number;
  askedFor: number;
  recovered: number;
  givenUp: number;
  jitterMs: number;
};
type Replayed = { decisions: Decision[]; streams: StreamFigures[]; estimates: { atMs: number; bps: number }[] };

/** Smaller changes of the estimate are not listed. */
const NOTICEABLE = 0.05;
const UNKNOWN = -1;

export function replayFlight(dump: FlightDump): Replayed {
  const uplink = replayReceived(dump);
  const downlink = replayReports(dump);
  const decisions = [...uplink.decisions, ...downlink.decisions].sort((a, b) => a.atMs - b.atMs);
  return { decisions, streams: uplink.streams, estimates: downlink.estimates };
}

/** Replays the client's packets: which were missing, requested again and given up. */
function replayReceived({ received, streams, states, lastedMs }: FlightDump) {
  const decisions: Decision[] = [];
  const replays = new Map(
    streams.map(({ ssrc, kind, codec, clockRate, rid }) => {
      const name = `${kind} ${codec}${rid === null ? "" : ` ${rid}`}`;
      const nack = new NackGenerator(kind === "video" ? VIDEO_REPAIR : AUDIO_REPAIR);
      return [ssrc, { ssrc, name, nack, reception: new Reception(ssrc, clockRate), packets: 0 }];
    }),
  );
  const rttAt = lastKnown(states, 3);
  function ask(atMs: number): void {
    for (const { name, nack } of replays.values()) {
      if (nack.missing === 0) continue;
      const rttMs = rttAt(atMs);
      if (rttMs !== null) nack.setRtt(rttMs);
      const { abandoned } = nack;
      const due = nack.takeDue(atMs);
      if (due.length > 0) {
        const why = `later packets have arrived; ${nack.missing} missing in all`;
        decisions.push({ atMs, about: name, decided: `asked again for ${due.length}: ${spanOf(due)}`, why });
      }
      gaveUp(name, nack, abandoned, atMs);
    }
  }
  function gaveUp(name: string, nack: NackGenerator, before: number, atMs: number): void {
    if (nack.abandoned === before) return;
    const keyframe = nack.takeKeyframeRequest() ? ", and asked for a keyframe" : "";
    const why = "asked for as often and as long as is useful, or too many were missing at once";
    decisions.push({ atMs, about: name, decided: `gave up on ${nack.abandoned - before}${keyframe}`, why });
  }
  let askedAtMs = 0;
  for (const [atMs = 0, ssrc = 0, sequence = 0, timestamp = 0, bytes = 0, , repair = 0] of received) {
    for (; askedAtMs + ASK_EVERY_MS <= atMs; askedAtMs += ASK_EVERY_MS) ask(askedAtMs + ASK_EVERY_MS);
    const stream = replays.get(ssrc);
    if (!stream) continue;
    const { nack, reception, name } = stream;
    const { abandoned } = nack;
    nack.receive(sequence, atMs);
    gaveUp(name, nack, abandoned, atMs);
    reception.receive(sequence, timestamp, bytes, atMs, repair === 1);
    stream.packets += 1;
  }
  for (; askedAtMs < lastedMs; askedAtMs += ASK_EVERY_MS) ask(askedAtMs + ASK_EVERY_MS);
  const figures = [...replays.values()].map(({ ssrc, name, packets, nack, reception }) => ({
    ssrc,
    name,
    packets,
    lost: Math.max(0, reception.cumulativeLost),
    jitterMs: round(reception.jitterMs),
    askedFor: nack.requested,
    recovered: nack.recovered,
    givenUp: nack.abandoned,
  }));
  return { decisions, streams: figures };
}

/** The interval at which the room requests missing packets. */
const ASK_EVERY_MS = 20;

type FlightEvent = { atMs: number } & ({ sent: readonly number[] } | { reported: RtcpPacket });

/** Replays the client's reports: the estimates of its downlink, and what changed them. */
function replayReports({ sent, rtcp, states }: FlightDump) {
  const decisions: Decision[] = [];
  const estimates: { atMs: number; bps: number }[] = [];
  const [firstState] = states.filter(([, estimate = UNKNOWN]) => estimate !== UNKNOWN);
  const [firstAtMs = 0, estimate] = firstState ?? [];
  const estimator = new BandwidthEstimator(estimate === undefined ? undefined : { estimate, atMs: firstAtMs });
  const packets = new SentPackets(sent[0]?.[1] ?? 1);
  const feedback = new TransportFeedback();
  const events: FlightEvent[] = [
    ...sent.map((row) => ({ atMs: row[0] ?? 0, sent: row })),
    ...rtcp.flatMap(({ atMs, packet }) =>
      parseRtcp(Buffer.from(packet, "base64")).map((reported) => ({ atMs, reported })),
    ),
  ].sort((a, b) => a.atMs - b.atMs);
  let listed = estimator.estimate;
  for (const event of events) {
    const { atMs } = event;
    if ("sent" in event) {
      const [, , bytes = 0, probe = 0] = event.sent;
      packets.next(bytes, atMs, probe);
      continue;
    }
    const { reported } = event;
    if (reported.type === "nack")
      decisions.push({
        atMs,
        about: "to the client",
        decided: `sent ${reported.lost.length} again`,
        why: `the client misses ${spanOf(reported.lost)}`,
      });
    else if (reported.type === "pli" || reported.type === "fir")
      decisions.push({
        atMs,
        about: "to the client",
        decided: "asked for a keyframe",
        why: "the client cannot decode",
      });
    else if (reported.type === "remb") estimator.onRemb(reported.bitrate, atMs);
    else if (reported.type === "transport-feedback" && feedback.parse(reported.data, reported.start, reported.end))
      estimator.onFeedback(feedback, packets, atMs);
    const { estimate: now } = estimator;
    estimates.push({ atMs, bps: Math.round(now) });
    if (Math.abs(now - listed) < listed * NOTICEABLE) continue;
    const decided = `${now < listed ? "lowered" : "raised"} the estimate from ${kbps(listed)} to ${kbps(now)} kbit/s`;
    decisions.push({ atMs, about: "to the client", decided, why: whyOf(estimator, now < listed, atMs) });
    listed = now;
  }
  return { decisions, estimates };
}

/** Above this loss alone lowers the estimate. */
const HIGH_LOSS = 0.1;

function whyOf(estimator: BandwidthEstimator, lowered: boolean, atMs: number): string {
  const { queueMs, loss } = estimator.describe(atMs);
  const waiting = `${round(queueMs)} ms of packets wait on the way`;
  if (!lowered) return `${waiting} and ${round((loss ?? 0) * 100)} % are lost: it follows what arrives`;
  if (loss !== null && loss > HIGH_LOSS) return `${round(loss * 100)} % of the packets were lost`;
  return `packets arrive more slowly than they were sent: ${waiting}`;
}

/** Returns the value of a column in the last row before a time; null while it is unknown. */
function lastKnown(rows: FlightDump["states"], column: number): (atMs: number) => number | null {
  let at = 0;
  let value: number | null = null;
  return (atMs) => {
    for (; at < rows.length && (rows[at]?.[0] ?? 0) <= atMs; at++) {
      const known = rows[at]?.[column] ?? UNKNOWN;
      if (known !== UNKNOWN) value = known;
    }
    return value;
  };
}

function spanOf(numbers: readonly number[]): string {
  const [first, last] = [numbers[0], numbers.at(-1)];
  return first === last ? `${first}` : `${first} to ${last}`;
}

const kbps = (bps: number) => Math.round(bps / 1_000);
const round = (value: number) => Math.round(value * 10) / 10;
