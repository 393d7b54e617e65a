import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DtlsGate } from "../../../src/sfu/transport/dtls-gate.ts";

/** One fragment in a record of its own. */
function fragment(type: number, sequence: number, body: Buffer, offset: number, length: number): Buffer {
  const record = Buffer.alloc(25 + length);
  record[0] = 22;
  record.writeUInt16BE(0xfefd, 1);
  record.writeUInt16BE(12 + length, 11);
  record[13] = type;
  record.writeUIntBE(body.length, 14, 3);
  record.writeUInt16BE(sequence, 17);
  record.writeUIntBE(offset, 19, 3);
  record.writeUIntBE(length, 22, 3);
  body.copy(record, 25, offset, offset + length);
  return record;
}

function encrypted(type: number, content: number): Buffer {
  const record = Buffer.alloc(14);
  record[0] = type;
  record.writeUInt16BE(0xfefd, 1);
  record.writeUInt16BE(1, 3);
  record.writeUInt16BE(1, 11);
  record[13] = content;
  return record;
}

function gate() {
  const delivered: Buffer[] = [];
  const state = { keys: false };
  const created = new DtlsGate({
    deliver: (records) => void delivered.push(Buffer.from(records)),
    hasKeys: () => state.keys,
  });
  return { gate: created, delivered, state };
}

const messageOf = (record: Buffer) => ({
  type: record[13],
  sequence: record.readUInt16BE(17),
  body: record.subarray(25),
});

describe("the DTLS gate", () => {
  test("messages are delivered whole and in order, whatever order, repetition and size the fragments have", () => {
    const bodies = fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(bodies, fc.integer({ min: 1, max: 120 }), fc.infiniteStream(fc.nat()), (contents, size, random) => {
        const pick = () => random.next().value ?? 0;
        const datagrams = contents.flatMap((content, sequence) => {
          const body = Buffer.from(content);
          const offsets = Array.from({ length: Math.ceil(body.length / size) }, (_, i) => i * size);
          return offsets.map((offset) => fragment(11, sequence, body, offset, Math.min(size, body.length - offset)));
        });
        const shuffled = [...datagrams, ...datagrams.filter(() => pick() % 3 === 0)]
          .map((datagram) => ({ datagram, key: pick() }))
          .sort((a, b) => a.key - b.key);
        const { gate: tested, delivered } = gate();
        for (const { datagram } of shuffled) tested.receive(datagram);
        expect(delivered.map(messageOf)).toEqual(
          contents.map((content, sequence) => ({ type: 11, sequence, body: Buffer.from(content) })),
        );
      }),
      { numRuns: 200 },
    );
  });

  test("a repeated ClientHello is passed on again, an older one is not", () => {
    const { gate: tested, delivered } = gate();
    const first = fragment(1, 0, Buffer.from("hello"), 0, 5);
    const second = fragment(1, 1, Buffer.from("cookie"), 0, 6);
    tested.receive(first);
    tested.receive(first);
    expect(delivered).toHaveLength(2);
    tested.receive(second);
    tested.receive(first);
    expect(delivered).toHaveLength(3);
    tested.receive(second);
    expect(delivered).toHaveLength(4);
    tested.receive(fragment(11, 2, Buffer.from("certificate"), 0, 11));
    tested.receive(second);
    expect(delivered).toHaveLength(5);
  });

  test("encrypted records wait until they can be opened, or for the end of the handshake", () => {
    const { gate: tested, delivered, state } = gate();
    tested.receive(encrypted(22, 1));
    tested.receive(encrypted(23, 2));
    expect(delivered).toEqual([]);
    state.keys = true;
    tested.receive(fragment(1, 0, Buffer.from("hello"), 0, 5));
    expect(delivered.map((record) => record[0])).toEqual([22, 22]);
    expect(tested.held.map((record) => record[0])).toEqual([23]);
  });

  test("unencrypted alerts are ignored", () => {
    const { gate: tested, delivered } = gate();
    const alert = encrypted(21, 0);
    alert.writeUInt16BE(0, 3);
    tested.receive(alert);
    expect(delivered).toEqual([]);
    expect(tested.held).toEqual([]);
  });

  test("garbage is ignored without growing", () => {
    const { gate: tested, delivered } = gate();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        tested.receive(Buffer.concat([Buffer.from([22, 254, 253, 0, 0]), Buffer.from(bytes)]));
      }),
      { numRuns: 2_000 },
    );
    const huge = fragment(11, 0, Buffer.alloc(20_000), 0, 100);
    tested.receive(huge);
    expect(delivered.every((record) => record.length < 20_000)).toBe(true);
  });
});
