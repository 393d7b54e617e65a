/** The packets of the SDK, against LiveKit's own implementation of the protocol. */
import { expect, test } from "bun:test";
import * as livekit from "@livekit/protocol";
import fc from "fast-check";
import { type DataPacket, decodePacket, encodePacket } from "../../../src/protocol/data/data-packet.ts";
import { decodeContent, encodeContent } from "../../../src/protocol/encryption/data-cipher.ts";

const text = fc.string({ unit: "grapheme", maxLength: 40 });
const bytes = fc.uint8Array({ maxLength: 300 });
const count = fc.nat();
const attributes = fc.dictionary(
  text.filter((key) => key !== "__proto__"),
  text,
  { maxKeys: 5 },
);

const content: fc.Arbitrary<DataPacket> = fc.oneof(
  fc.record({ user: fc.record({ payload: bytes, topic: text }) }),
  fc.record({
    header: fc.record({
      streamId: text,
      timestamp: fc.maxSafeNat(),
      topic: text,
      mimeType: text,
      totalLength: fc.maxSafeNat(),
      attributes,
      text: fc.constant({}),
    }),
  }),
  fc.record({ header: fc.record({ streamId: text, topic: text, attributes, file: fc.record({ name: text }) }) }),
  fc.record({ chunk: fc.record({ streamId: text, index: fc.maxSafeNat(), content: bytes }) }),
  fc.record({ trailer: fc.record({ streamId: text, reason: text }) }),
  fc.record({
    request: fc.record({ id: text, method: text, payload: text, timeoutMs: count, version: fc.constant(1) }),
  }),
  fc.record({ requestAck: fc.record({ id: text }) }),
  fc.record({ response: fc.record({ id: text, payload: text }) }),
  fc.record({ response: fc.record({ id: text, error: fc.record({ code: count, message: text, data: text }) }) }),
);
const packet = fc
  .tuple(content, fc.record({ from: text, to: fc.array(text, { minLength: 1, maxLength: 4 }), sequence: count }))
  .map(([what, head]) => ({ ...what, ...head }));

/** The content of LiveKit's classes in the form of our packet. */
function ofLivekit(data: Uint8Array): DataPacket {
  const { value, participantIdentity, destinationIdentities, sequence } = livekit.DataPacket.fromBinary(data);
  const head = { from: participantIdentity, to: destinationIdentities, sequence };
  switch (value.case) {
    case "user":
      return { ...head, user: { payload: value.value.payload, topic: value.value.topic } };
    case "streamHeader": {
      const { streamId, timestamp, topic, mimeType, totalLength, attributes, contentHeader } = value.value;
      const isText = contentHeader.case === "textHeader";
      const known = { streamId, topic, attributes };
      const file = isText ? undefined : { name: (contentHeader.value as livekit.DataStream_ByteHeader).name };
      return {
        ...head,
        header: isText
          ? { ...known, timestamp: Number(timestamp), mimeType, totalLength: Number(totalLength), text: {} }
          : { ...known, file },
      };
    }
    case "streamChunk": {
      const { streamId, chunkIndex, content } = value.value;
      return { ...head, chunk: { streamId, index: Number(chunkIndex), content } };
    }
    case "streamTrailer":
      return { ...head, trailer: { streamId: value.value.streamId, reason: value.value.reason } };
    case "rpcRequest": {
      const { id, method, payload, responseTimeoutMs: timeoutMs, version } = value.value;
      return { ...head, request: { id, method, payload, timeoutMs, version } };
    }
    case "rpcAck":
      return { ...head, requestAck: { id: value.value.requestId } };
    case "rpcResponse": {
      const { requestId: id, value: result } = value.value;
      if (result.case === "payload") return { ...head, response: { id, payload: result.value } };
      const { code, message, data } = result.value as livekit.RpcError;
      return { ...head, response: { id, error: { code, message, data } } };
    }
    default:
      return head;
  }
}

test("LiveKit's implementation reads every packet in the same way, and what it writes is read back the same", () => {
  fc.assert(
    fc.property(packet, (one) => {
      const encoded = encodePacket(one);
      const wanted = { ...one, ...(one.header && { header: { attributes: {}, ...one.header } }) };
      expect(ofLivekit(encoded)).toEqual(wanted);
      const decoded = decodePacket(encoded);
      if (decoded?.header) decoded.header.attributes ??= {};
      expect(decoded).toEqual(wanted);
      // The packet as LiveKit's clients write it, without fields that have their default value.
      const theirs = livekit.DataPacket.fromBinary(encoded).toBinary();
      expect(ofLivekit(encodePacket(decodePacket(theirs) ?? {}))).toEqual(wanted);
    }),
    { numRuns: 500 },
  );
});

test("no bytes make the decoder throw", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 400 }), (data) => {
      decodePacket(data);
    }),
    { numRuns: 3_000 },
  );
  fc.assert(
    fc.property(packet, fc.nat(), fc.nat({ max: 255 }), fc.nat(), (one, at, byte, length) => {
      const data = encodePacket(one);
      data[at % data.length] = byte;
      decodePacket(data.subarray(0, length % (data.length + 1)));
    }),
    { numRuns: 3_000 },
  );
});

test("unknown fields are skipped, and thousands of fields are refused", () => {
  const known = encodePacket({ user: { topic: "t", payload: Uint8Array.of(1) } });
  const more = new livekit.DataPacket({ participantSid: "PA_1" }).toBinary();
  expect(decodePacket(new Uint8Array([...known, ...more]))?.user?.topic).toBe("t");
  expect(decodePacket(new Uint8Array(60_000).fill(0).map((_, index) => (index % 2 === 0 ? 0x2a : 0)))).toBeNull();
  // Nested fields count too, even in an encrypted packet.
  const attributes = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, "v"]));
  const header = (count: number) => ({ streamId: "s", attributes: attributes(count) });
  expect(decodePacket(encodePacket({ header: header(600) }))?.header).toEqual(header(600));
  expect(decodePacket(encodePacket({ header: header(1_900) }))).toBeNull();
  expect(decodeContent(encodeContent({ header: header(1_900) }))).toBeNull();
  const nested = encodePacket({ response: { error: {} } });
  expect(decodePacket(Buffer.concat(Array.from({ length: 1_001 }, () => nested)))).toBeNull();
});

test("LiveKit's implementation reads an encrypted packet and its content in the same way", () => {
  const content = { user: { payload: Uint8Array.of(1, 2), topic: "t" } };
  const inner = livekit.EncryptedPacketPayload.fromBinary(encodeContent(content));
  expect(inner.value).toMatchObject({ case: "user", value: { topic: "t" } });
  expect(decodeContent(inner.toBinary())).toMatchObject({ user: { topic: "t" } });
  const request = livekit.EncryptedPacketPayload.fromBinary(
    encodeContent({ request: { id: "r", method: "m", payload: "p" } }),
  );
  expect(request.value).toMatchObject({ case: "rpcRequest", value: { id: "r", method: "m", payload: "p" } });
  const chunk = livekit.EncryptedPacketPayload.fromBinary(encodeContent({ chunk: { streamId: "s", index: 3 } }));
  expect(chunk.value).toMatchObject({ case: "streamChunk", value: { streamId: "s", chunkIndex: 3n } });
  const encrypted = { type: 1, iv: new Uint8Array(12).fill(7), keyIndex: 5, value: new Uint8Array(20).fill(9) };
  const packet = livekit.DataPacket.fromBinary(encodePacket({ to: ["ben"], encrypted }));
  expect(packet.value).toMatchObject({ case: "encryptedPacket", value: { encryptionType: 1, keyIndex: 5 } });
  expect(packet.destinationIdentities).toEqual(["ben"]);
  expect(decodePacket(packet.toBinary())?.encrypted).toEqual(encrypted);
});
