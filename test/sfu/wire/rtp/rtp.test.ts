import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  isRtcp,
  RtpView,
  rtpHeaderLength,
  setPayloadType,
  setSequenceNumber,
  setSsrc,
} from "../../../../src/sfu/wire/rtp/rtp.ts";
import {
  absSendTime,
  type ExtensionIds,
  OutgoingExtensions,
  RtpExtensions,
} from "../../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { findExtension, hex, rtpPacket } from "../../packets.ts";

const ascii = (text: string) => Uint8Array.from(Buffer.from(text));
const IDS: ExtensionIds = { mid: 1, rid: 2, repairedRid: 3, absSendTime: 4, transportSequence: 5, audioLevel: 6 };

describe("RTP headers", () => {
  test("every field is read", () => {
    const view = new RtpView();
    const packet = rtpPacket({
      sequenceNumber: 65_535,
      timestamp: 0xfffffffe,
      ssrc: 0xdeadbeef,
      payloadType: 111,
      marker: true,
      csrcs: 2,
      extensions: [{ id: 1, data: ascii("a") }],
      payload: 10,
      padding: 4,
    });
    expect(view.parse(packet)).toBe(true);
    expect(view).toMatchObject({
      sequenceNumber: 65_535,
      timestamp: 0xfffffffe,
      ssrc: 0xdeadbeef,
      payloadType: 111,
      marker: true,
      extensionProfile: 0xbede,
      payloadOffset: 12 + 8 + 4 + 4,
      payloadLength: 10,
      paddingLength: 4,
    });
  });

  test.each([
    ["too short", "8060000100000000000000"],
    ["version 1", "406000010000000000000001"],
    ["CSRCs past the end", "8f6000010000000000000001"],
    ["extension header past the end", "906000010000000000000001bede"],
    ["extension past the end", "906000010000000000000001bede0001"],
    ["padding of 0", "a0600001000000000000000100"],
    ["padding longer than the payload", "a0600001000000000000000103"],
    ["padding without any payload", "a06000010000000000000001"],
  ])("%s is refused", (_, bytes) => {
    expect(new RtpView().parse(hex(bytes))).toBe(false);
  });

  test("a packet of padding alone has no payload", () => {
    const view = new RtpView();
    expect(view.parse(rtpPacket({ payload: 0, padding: 200 }))).toBe(true);
    expect(view.payloadLength).toBe(0);
  });

  test("a view that is reused keeps nothing of the previous packet", () => {
    const view = new RtpView();
    view.parse(rtpPacket({ csrcs: 3, extensions: [{ id: 5, data: ascii("xy") }], padding: 8, marker: true }));
    expect(view.parse(rtpPacket({ payload: 5 }))).toBe(true);
    expect(view).toMatchObject({
      extensionProfile: 0,
      extensionLength: 0,
      paddingLength: 0,
      payloadOffset: 12,
      marker: false,
    });
    expect(findExtension(view, 5)).toBe(false);
  });

  test("the given length counts instead of the buffer's", () => {
    const buffer = new Uint8Array(100);
    buffer.set(rtpPacket({ payload: 8 }));
    const view = new RtpView();
    expect(view.parse(buffer, 20)).toBe(true);
    expect(view.payloadLength).toBe(8);
    expect(rtpHeaderLength(buffer, 11)).toBe(-1);
  });

  test("setting a field changes no other", () => {
    const packet = rtpPacket({ marker: true, payloadType: 96 });
    const expected = rtpPacket({
      marker: false,
      payloadType: 45,
      sequenceNumber: 65_535,
      ssrc: 7,
    });
    setSequenceNumber(packet, 65_535);
    setSsrc(packet, 7);
    setPayloadType(packet, 45, false);
    expect(packet).toEqual(expected);
  });

  test("RTCP and RTP are distinguished by the packet type", () => {
    expect(isRtcp(hex("80c8"))).toBe(true);
    expect(isRtcp(hex("80cf"))).toBe(true);
    expect(isRtcp(hex("80bf"))).toBe(false);
    expect(isRtcp(hex("80e0"))).toBe(false);
    expect(isRtcp(hex("80"))).toBe(false);
  });
});

describe("header extensions", () => {
  const read = (packet: Uint8Array) => {
    const view = new RtpView();
    expect(view.parse(packet)).toBe(true);
    const extensions = new RtpExtensions();
    extensions.read(view, IDS);
    return extensions;
  };

  test("all supported extensions are read in one pass", () => {
    const extensions = read(
      rtpPacket({
        extensions: [
          { id: 1, data: ascii("12") },
          { id: 2, data: ascii("hi") },
          { id: 3, data: ascii("lo") },
          { id: 4, data: hex("abcdef") },
          { id: 5, data: hex("fffe") },
          { id: 6, data: hex("9e") },
          { id: 9, data: hex("00112233445566778899aabbccddeeff") },
        ],
      }),
    );
    expect(extensions).toMatchObject({
      mid: "12",
      rid: "hi",
      repairedRid: "lo",
      absSendTime: 0xabcdef,
      transportSequence: 0xfffe,
      audioLevel: 30,
      voice: true,
    });
  });

  test("two-byte headers, padding between elements, and ids above 14", () => {
    const block = "1000 0004  0102 3132 00 05 02 fffe 00  06 01 1e  c8 00 00".replace(/\s/g, "");
    const packet = hex(`9060000100000000000000${"01"}${block}0102`);
    expect(read(packet)).toMatchObject({ mid: "12", transportSequence: 0xfffe, audioLevel: 30, voice: false });
    const view = new RtpView();
    view.parse(packet);
    expect(findExtension(view, 200)).toBe(true);
    expect(view.elementLength).toBe(0);
  });

  test("missing, truncated and foreign blocks yield no extensions", () => {
    const nothing = { mid: undefined, rid: undefined, transportSequence: -1, audioLevel: -1, absSendTime: -1 };
    expect(read(rtpPacket())).toMatchObject(nothing);
    // The element claims 16 bytes, the block has 3.
    expect(read(hex("906000010000000000000001bede00011f313233"))).toMatchObject(nothing);
    // An unknown profile.
    expect(read(hex("906000010000000000000001abcd000110313200"))).toMatchObject(nothing);
    // Id 15 ends the walk.
    expect(read(hex("906000010000000000000001bede0001f0311031"))).toMatchObject(nothing);
    // A transport sequence of one byte.
    expect(read(hex("906000010000000000000001bede000150010000"))).toMatchObject(nothing);
  });

  const write = (outgoing: OutgoingExtensions, source: Uint8Array, nowMs = 0, transportSequence = 0) => {
    const view = new RtpView();
    view.parse(source);
    const out = new Uint8Array(1500).fill(0xee);
    out.set(source.subarray(0, 12));
    const end = outgoing.write(out, 12, view, nowMs, transportSequence);
    out[0] = end > 12 ? 0x90 : 0x80;
    return out.slice(0, end);
  };

  test("the written block has the subscriber's MID, time and number instead of the publisher's", () => {
    const source = rtpPacket({
      extensions: [
        { id: 1, data: ascii("publisher") },
        { id: 5, data: hex("1234") },
        { id: 4, data: hex("000001") },
      ],
    });
    const outgoing = new OutgoingExtensions({ mid: { id: 1, value: "7" }, absSendTimeId: 4, transportSequenceId: 5 });
    const sent = read(write(outgoing, source, 1_700_000_000_123.5, 65_535));
    expect(sent).toMatchObject({ mid: "7", transportSequence: 65_535, absSendTime: absSendTime(1_700_000_000_123.5) });
  });

  test("without negotiated extensions no block is written", () => {
    const source = rtpPacket({ extensions: [{ id: 1, data: ascii("publisher") }] });
    expect(write(new OutgoingExtensions({}), source).length).toBe(12);
  });

  test("forwarded extensions get new ids in both forms", () => {
    const source = rtpPacket({
      extensions: [
        { id: 6, data: hex("9e") },
        { id: 8, data: hex("0102030405") },
      ],
    });
    for (const to of [3, 20]) {
      const outgoing = new OutgoingExtensions({ mid: { id: 1, value: "m" }, passThrough: [{ from: 8, to }] });
      const packet = write(outgoing, source);
      const view = new RtpView();
      expect(view.parse(packet)).toBe(true);
      expect(findExtension(view, to)).toBe(true);
      expect(packet.slice(view.elementOffset, view.elementOffset + view.elementLength)).toEqual(hex("0102030405"));
      expect(findExtension(view, 6)).toBe(false);
      expect(view.extensionProfile).toBe(to > 14 ? 0x1000 : 0xbede);
    }
  });

  test("an RTP header extension block with any MID and any extension ids can be parsed again", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 32 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 255 }), { minLength: 3, maxLength: 3 }),
        fc.nat(0xffff),
        (value, ids, number) => {
          const [mid = 1, time = 2, sequence = 3] = ids;
          fc.pre(!ids.includes(15));
          const outgoing = new OutgoingExtensions({
            mid: { id: mid, value },
            absSendTimeId: time,
            transportSequenceId: sequence,
          });
          const view = new RtpView();
          const packet = write(outgoing, rtpPacket(), 12_345.678, number);
          expect(view.parse(packet)).toBe(true);
          const found = new RtpExtensions();
          found.read(view, {
            ...IDS,
            mid,
            rid: 0,
            repairedRid: 0,
            audioLevel: 0,
            absSendTime: time,
            transportSequence: sequence,
          });
          expect(found).toMatchObject({ mid: value, transportSequence: number, absSendTime: absSendTime(12_345.678) });
        },
      ),
      { seed: 2, numRuns: 300 },
    );
  });
});
