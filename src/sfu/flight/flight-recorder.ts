/** Records the last seconds of one connection: packet headers, RTCP reports and estimates, without content. */
import type { FlightDump } from "../../protocol/media/flight.ts";
import { RTCP_TYPE } from "../wire/rtcp/rtcp.ts";
import { msOf, ticksOf } from "../wire/rtcp/ticks.ts";
import { readUint8, readUint16 } from "../wire/rtp/bytes.ts";

const PACKETS = 1_024;
/** Ticks of arrival, SSRC, timestamp; sequence number (16 bits), marker (1), whether it is a retransmission (1), length (14). */
const WORDS = 4;
const MARKER = 0x8000;
const REPAIR = 0x4000;
const LENGTH_MASK = 0x3fff;
const STATES = 120;
const STATE_COLUMNS = 6;
const STATE_EVERY_MS = 500;
/** Per half of the report log; the older half is discarded when the newer one is full. */
const REPORT_BYTES = 4_096;
const REPORT_HEADER = 10;
/** SDES is not kept, because it names the source. */
const KEPT: ReadonlySet<number> = new Set([
  RTCP_TYPE.sr,
  RTCP_TYPE.rr,
  RTCP_TYPE.rtpFeedback,
  RTCP_TYPE.payloadFeedback,
]);

export type FlightState = {
  estimateBps: number | null;
  queueMs: number | null;
  rttMs: number | null;
  uplinkLossPercent: number | null;
  downlinkLossPercent: number | null;
  jitterMs: number | null;
};

/** One of the two halves of the report log. Each entry is the time, the length and the bytes of a report. */
class ReportLog {
  length = 0;
  readonly bytes = new Uint8Array(REPORT_BYTES);
  readonly #view = new DataView(this.bytes.buffer);

  /** Returns false when it is full. */
  add(data: Uint8Array, from: number, end: number, nowMs: number): boolean {
    const at = this.length;
    if (at + REPORT_HEADER + end - from > REPORT_BYTES) return false;
    this.#view.setFloat64(at, nowMs);
    this.#view.setUint16(at + 8, end - from);
    let to = at + REPORT_HEADER;
    for (let i = from; i < end; i++) this.bytes[to++] = readUint8(data, i);
    this.length = to;
    return true;
  }

  rows(): [number, string][] {
    const found: [number, string][] = [];
    for (let at = 0; at < this.length; ) {
      const from = at + REPORT_HEADER;
      at = from + this.#view.getUint16(at + 8);
      found.push([
        this.#view.getFloat64(from - REPORT_HEADER),
        Buffer.from(this.bytes.subarray(from, at)).toString("base64"),
      ]);
    }
    return found;
  }
}

type ReceivedHeader = { ssrc: number; sequenceNumber: number; timestamp: number; length: number; marker: boolean };

/** Memory is allocated with the first entry, because most participants publish nothing. */
export class FlightRecorder {
  /** A counter and the packets: `flight_log` in fast-path.h, because native code records packets here too. */
  #received: Uint32Array<ArrayBuffer> | null = null;
  #reports: { newer: ReportLog; older: ReportLog | null } | null = null;
  #states: { readonly atMs: Float64Array; readonly values: Float32Array } | null = null;
  #stateCount = 0;
  #stateAtMs = Number.NEGATIVE_INFINITY;

  received({ ssrc, sequenceNumber, timestamp, length, marker }: ReceivedHeader, repair: boolean, nowMs: number): void {
    this.#received ??= new Uint32Array(new ArrayBuffer((1 + PACKETS * WORDS) * 4));
    const words = this.#received;
    const packets = words[0] as number;
    words[0] = packets + 1;
    const at = 1 + (packets % PACKETS) * WORDS;
    words[at] = ticksOf(nowMs);
    words[at + 1] = ssrc;
    words[at + 2] = timestamp;
    words[at + 3] = sequenceNumber * 0x10000 + (marker ? MARKER : 0) + (repair ? REPAIR : 0) + (length & LENGTH_MASK);
  }

  /** Null before the first packet. */
  get receivedMemory(): Uint32Array | null {
    return this.#received;
  }

  /** Takes a decrypted compound packet. */
  reported(data: Uint8Array, length: number, nowMs: number): void {
    for (let at = 0; at + 4 <= length; ) {
      const end = at + 4 + readUint16(data, at + 2) * 4;
      if (end > length) return;
      if (KEPT.has(readUint8(data, at + 1))) this.#keep(data, at, end, nowMs);
      at = end;
    }
  }

  #keep(data: Uint8Array, from: number, end: number, nowMs: number): void {
    if (REPORT_HEADER + end - from > REPORT_BYTES) return;
    this.#reports ??= { newer: new ReportLog(), older: null };
    const { newer, older } = this.#reports;
    if (newer.add(data, from, end, nowMs)) return;
    const next = older ?? new ReportLog();
    this.#reports = { newer: next, older: newer };
    next.length = 0;
    next.add(data, from, end, nowMs);
  }

  isStateDue(nowMs: number): boolean {
    return nowMs - this.#stateAtMs >= STATE_EVERY_MS;
  }

  state(state: FlightState, nowMs: number): void {
    this.#stateAtMs = nowMs;
    this.#states ??= { atMs: new Float64Array(STATES), values: new Float32Array(STATES * STATE_COLUMNS) };
    const { estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs } = state;
    const values = [estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs];
    const slot = this.#stateCount++ % STATES;
    this.#states.atMs[slot] = nowMs;
    for (const [column, value] of values.entries()) this.#states.values[slot * STATE_COLUMNS + column] = value ?? -1;
  }

  dump(streams: FlightDump["streams"], sent: readonly (readonly number[])[], nowMs: number): FlightDump {
    const received = this.#receivedRows(nowMs);
    const rtcp = this.#reportRows();
    const states = this.#stateRows();
    const times = [received, sent, states].flatMap((rows) => rows.map(([at = 0]) => at));
    const sinceMs = Math.floor([...times, ...rtcp.map(([at]) => at)].reduce((a, b) => Math.min(a, b), nowMs));
    const from = (at = 0) => Math.round((at - sinceMs) * 100) / 100;
    const shifted = (rows: readonly (readonly number[])[]) => rows.map(([at, ...rest]) => [from(at), ...rest]);
    return {
      version: 1,
      sinceMs,
      lastedMs: from(nowMs),
      streams,
      received: shifted(received),
      sent: shifted(sent),
      states: shifted(states),
      rtcp: rtcp.map(([at, packet]) => ({ atMs: from(at), packet })),
    };
  }

  #receivedRows(nowMs: number): number[][] {
    const words = this.#received;
    if (!words) return [];
    return inOrder(words[0] ?? 0, PACKETS, (slot) => {
      const [ticks = 0, ssrc = 0, timestamp = 0, rest = 0] = words.subarray(1 + slot * WORDS);
      const marks = [rest & MARKER ? 1 : 0, rest & REPAIR ? 1 : 0];
      return [msOf(ticks, nowMs), ssrc, rest >>> 16, timestamp, rest & LENGTH_MASK, ...marks];
    });
  }

  #stateRows(): number[][] {
    return inOrder(this.#stateCount, STATES, (slot) => {
      const rounded = (value: number) => Math.round(value * 10) / 10;
      const values = this.#states?.values.subarray(slot * STATE_COLUMNS, (slot + 1) * STATE_COLUMNS) ?? [];
      return [this.#states?.atMs[slot] ?? 0, ...values].map(rounded);
    });
  }

  #reportRows(): [number, string][] {
    return [...(this.#reports?.older?.rows() ?? []), ...(this.#reports?.newer.rows() ?? [])];
  }
}

function inOrder(count: number, capacity: number, read: (slot: number) => number[]): number[][] {
  const kept = Math.min(count, capacity);
  return Array.from({ length: kept }, (_, index) => read((count - kept + index) % capacity));
}
