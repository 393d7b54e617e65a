/** Records the last seconds of one connection: packet headers, RTCP reports and estimates, without content. */
import type { FlightDump } from "../../protocol/media/flight.ts";
import { RTCP_TYPE } from "../wire/rtcp/rtcp.ts";
import { readUint8, readUint16 } from "../wire/rtp/bytes.ts";

const PACKETS = 2_048;
const WORDS = 4;
const STATES = 120;
const STATE_COLUMNS = 7;
const STATE_EVERY_MS = 500;
/** Per half of the report log; the older half is discarded when the newer one is full. */
const REPORT_BYTES = 8_192;
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

/** `flight_log` in fast-path.h, because native code records packets here too. */
type ReceivedPackets = { count: Uint32Array; times: Float64Array; words: Uint32Array };

function createReceivedPackets(): ReceivedPackets {
  const memory = new ArrayBuffer(8 + PACKETS * 8 + PACKETS * WORDS * 4);
  return {
    count: new Uint32Array(memory, 0, 2),
    times: new Float64Array(memory, 8, PACKETS),
    words: new Uint32Array(memory, 8 + PACKETS * 8),
  };
}

/** Memory is allocated with the first entry, because most participants publish nothing. */
export class FlightRecorder {
  #received: ReceivedPackets | null = null;
  #reports: { newer: ReportLog; older: ReportLog } | null = null;
  #states: Float64Array | null = null;
  #stateCount = 0;
  #stateAtMs = Number.NEGATIVE_INFINITY;

  received({ ssrc, sequenceNumber, timestamp, length, marker }: ReceivedHeader, repair: boolean, nowMs: number): void {
    this.#received ??= createReceivedPackets();
    const { count, times, words } = this.#received;
    const packets = count[0] as number;
    count[0] = packets + 1;
    const slot = packets % PACKETS;
    times[slot] = nowMs;
    const at = slot * WORDS;
    words[at] = ssrc;
    words[at + 1] = timestamp;
    words[at + 2] = sequenceNumber * 0x10000 + Math.min(length, 0xffff);
    words[at + 3] = (marker ? 1 : 0) + (repair ? 2 : 0);
  }

  /** Null before the first packet. */
  get receivedMemory(): Uint32Array | null {
    return this.#received?.count ?? null;
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
    this.#reports ??= { newer: new ReportLog(), older: new ReportLog() };
    const { newer, older } = this.#reports;
    if (newer.add(data, from, end, nowMs)) return;
    this.#reports = { newer: older, older: newer };
    older.length = 0;
    older.add(data, from, end, nowMs);
  }

  isStateDue(nowMs: number): boolean {
    return nowMs - this.#stateAtMs >= STATE_EVERY_MS;
  }

  state(state: FlightState, nowMs: number): void {
    this.#stateAtMs = nowMs;
    this.#states ??= new Float64Array(STATES * STATE_COLUMNS);
    const { estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs } = state;
    const values = [estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs];
    const at = (this.#stateCount++ % STATES) * STATE_COLUMNS;
    this.#states[at] = nowMs;
    for (const [column, value] of values.entries()) this.#states[at + 1 + column] = value ?? -1;
  }

  dump(streams: FlightDump["streams"], sent: readonly (readonly number[])[], nowMs: number): FlightDump {
    const received = this.#receivedRows();
    const rtcp = this.#reportRows();
    const states = this.#stateRows();
    const times = [received, sent, states].flatMap((rows) => rows.map(([at = 0]) => at));
    const sinceMs = Math.floor([...times, ...rtcp.map(([at]) => at)].reduce((a, b) => Math.min(a, b), nowMs));
    const from = (at = 0) => Math.round((at - sinceMs) * 100) / 100;
    const shifted = (rows: readonly (readonly number[])[]) => rows.map(([at, ...rest]) => [from(at), ...rest]);
    return {
      ...{ version: 1, sinceMs, lastedMs: from(nowMs), streams },
      ...{ received: shifted(received), sent: shifted(sent), states: shifted(states) },
      rtcp: rtcp.map(([at, packet]) => ({ atMs: from(at), packet })),
    };
  }

  #receivedRows(): number[][] {
    if (!this.#received) return [];
    const { count, times, words } = this.#received;
    return inOrder(count[0] ?? 0, PACKETS, (slot) => {
      const at = slot * WORDS;
      const word = (index: number) => words[at + index] ?? 0;
      const [sequence, bytes] = [word(2) >>> 16, word(2) & 0xffff];
      return [times[slot] ?? 0, word(0), sequence, word(1), bytes, word(3) & 1, word(3) >> 1];
    });
  }

  #stateRows(): number[][] {
    return inOrder(this.#stateCount, STATES, (slot) => {
      const rounded = (value: number) => Math.round(value * 10) / 10;
      return [...(this.#states?.subarray(slot * STATE_COLUMNS, (slot + 1) * STATE_COLUMNS) ?? [])].map(rounded);
    });
  }

  #reportRows(): [number, string][] {
    return this.#reports ? [...this.#reports.older.rows(), ...this.#reports.newer.rows()] : [];
  }
}

function inOrder(count: number, capacity: number, read: (slot: number) => number[]): number[][] {
  const kept = Math.min(count, capacity);
  return Array.from({ length: kept }, (_, index) => read((count - kept + index) % capacity));
}
