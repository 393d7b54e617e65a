/**
 * The gate in front of the DTLS engine during the handshake: it joins fragments, delivers messages in order, and holds encrypted
 * records until they can be decrypted. A browser's ClientHello always comes in two fragments; without the gate, one swapped pair of
 * packets ends the handshake.
 */
import { CONTENT_TYPE, eachRecord, RECORD_HEADER_BYTES } from "../wire/dtls/records.ts";

const MESSAGE_HEADER = 12;
const CLIENT_HELLO = 1;
/** The certificate chain of a browser has less than 2 KB. */
const MAX_MESSAGE_BYTES = 16_384;
const MAX_AHEAD = 8;
const MAX_HELD = 32;
const HELD: ReadonlySet<number | undefined> = new Set(Object.values(CONTENT_TYPE));

type GateOutput = {
  deliver(record: Buffer): void;
  /** Returns whether the client's key exchange was read, so that encrypted records can be decrypted. */
  hasKeys(): boolean;
};

export class DtlsGate {
  readonly #out: GateOutput;
  readonly #partial = new Map<number, { type: number; body: Buffer; have: Uint8Array; missing: number }>();
  #next = 0;
  #lastHello: { sequence: number; record: Buffer } | null = null;
  #held: Buffer[] = [];

  constructor(out: GateOutput) {
    this.#out = out;
  }

  /** The encrypted records that arrived before the handshake was complete and do not belong to it. */
  get held(): readonly Buffer[] {
    return this.#held;
  }

  receive(datagram: Buffer): void {
    eachRecord(datagram, (record, epoch) => {
      if (epoch > 0) this.#encrypted(record);
      // A plain alert may be forged.
      else if (record[0] === CONTENT_TYPE.handshake) this.#plainHandshake(record.subarray(RECORD_HEADER_BYTES));
    });
  }

  #encrypted(record: Buffer): void {
    const [type] = record;
    if (type === CONTENT_TYPE.handshake && this.#out.hasKeys() && this.#next > 0) this.#out.deliver(record);
    else if (this.#held.length < MAX_HELD && HELD.has(type)) this.#held.push(Buffer.from(record));
  }

  #plainHandshake(fragments: Buffer): void {
    let at = 0;
    while (at + MESSAGE_HEADER <= fragments.length) {
      const length = fragments.readUIntBE(at + 1, 3);
      const sequence = fragments.readUInt16BE(at + 4);
      const offset = fragments.readUIntBE(at + 6, 3);
      const size = fragments.readUIntBE(at + 9, 3);
      const start = at + MESSAGE_HEADER;
      at = start + size;
      if (at > fragments.length || offset + size > length || length > MAX_MESSAGE_BYTES) return;
      if (sequence < this.#next) this.#repeated(sequence);
      else if (sequence <= this.#next + MAX_AHEAD) {
        this.#collect(fragments[start - MESSAGE_HEADER] ?? 0, sequence, length, offset, fragments.subarray(start, at));
      }
    }
    this.#deliverComplete();
  }

  /**
   * A repeated ClientHello means that the server's flight was lost, so the engine sends it again. An older ClientHello must not
   * restart the handshake.
   */
  #repeated(sequence: number): void {
    if (this.#lastHello?.sequence === sequence && this.#next === sequence + 1)
      this.#out.deliver(this.#lastHello.record);
  }

  #collect(type: number, sequence: number, length: number, offset: number, fragment: Buffer): void {
    let partial = this.#partial.get(sequence);
    if (!partial) {
      partial = { type, body: Buffer.alloc(length), have: new Uint8Array(length), missing: length };
      this.#partial.set(sequence, partial);
    }
    if (partial.type !== type || partial.body.length !== length) return;
    fragment.copy(partial.body, offset);
    for (let i = offset; i < offset + fragment.length; i++) {
      if (partial.have[i]) continue;
      partial.have[i] = 1;
      partial.missing--;
    }
  }

  #deliverComplete(): void {
    for (let message = this.#partial.get(this.#next); message?.missing === 0; message = this.#partial.get(this.#next)) {
      const record = wholeRecord(message.type, this.#next, message.body);
      if (message.type === CLIENT_HELLO) this.#lastHello = { sequence: this.#next, record };
      this.#partial.delete(this.#next);
      this.#next++;
      this.#out.deliver(record);
    }
    const held = this.#held;
    this.#held = [];
    for (const record of held) this.#encrypted(record);
  }
}

function wholeRecord(type: number, sequence: number, body: Buffer): Buffer {
  const record = Buffer.alloc(RECORD_HEADER_BYTES + MESSAGE_HEADER + body.length);
  record[0] = CONTENT_TYPE.handshake;
  record.writeUInt16BE(0xfefd, 1);
  record.writeUInt16BE(sequence, 9);
  record.writeUInt16BE(MESSAGE_HEADER + body.length, 11);
  record[RECORD_HEADER_BYTES] = type;
  record.writeUIntBE(body.length, RECORD_HEADER_BYTES + 1, 3);
  record.writeUInt16BE(sequence, RECORD_HEADER_BYTES + 4);
  record.writeUIntBE(body.length, RECORD_HEADER_BYTES + 9, 3);
  body.copy(record, RECORD_HEADER_BYTES + MESSAGE_HEADER);
  return record;
}
