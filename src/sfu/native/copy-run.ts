// Every seat's copies of packets in a row, viewer by viewer, so that what is for one leaves as one message.

import type { Pointer } from "bun:ffi";
import { ROW_WORDS, type SeatTable } from "../forwarding/seat-table.ts";
import type { SendBatch } from "../forwarding/send-batch.ts";
import type { NativeEngine } from "./library.ts";

/** `source` in native.h. */
export const SOURCE_WORDS = 70;
const SOURCE_BYTES = SOURCE_WORDS * 4;

/** `sources`: where the packets are described, one after the other. */
export function copyRun(
  native: NativeEngine,
  sources: number,
  packets: number,
  table: SeatTable,
  batch: SendBatch,
): void {
  // Only a batch for a test holds fewer.
  if (packets > batch.capacity) {
    for (let i = 0; i < packets; i++) copyRun(native, sources + i * SOURCE_BYTES, 1, table, batch);
    return;
  }
  const { arena, destinations } = batch;
  for (let done = 0; done < table.seats.length; ) {
    const room = Math.floor((batch.capacity - batch.count) / packets);
    if (room === 0) {
      batch.flush();
      continue;
    }
    const count = Math.min(table.seats.length - done, room);
    const rows = done === 0 ? table.rows : table.rows.subarray(done * ROW_WORDS);
    const filled = native.functions.stoa_fan_out_run(
      native.engine,
      arena,
      arena.length,
      batch.count,
      destinations,
      sources as Pointer,
      packets,
      rows,
      count,
    );
    if (filled !== count * packets) return;
    batch.commitFilled(table.addresses, done, count, packets);
    done += count;
  }
}
