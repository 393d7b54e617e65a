// Copies for an audience are put off to be made together. What they are made of is looked up when they are made.

import { expect, test } from "bun:test";
import { Audience } from "../../../src/sfu/forwarding/audience.ts";
import type { Seat } from "../../../src/sfu/forwarding/seat.ts";
import { SendBatch } from "../../../src/sfu/forwarding/send-batch.ts";
import { Vp8Descriptor } from "../../../src/sfu/wire/codec/vp8.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { SrtpReceiver, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { nativePath } from "../packet-paths.ts";
import { rtpPacket } from "../packets.ts";

const KEY = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16).fill(1), salt: new Uint8Array(12) } as const;

function seatFor(port: number): Seat {
  const srtp = new SrtpSender(KEY, nativePath.createCipher);
  return {
    ...{ ssrc: 9, payloadType: 96, sequenceOffset: 0, timestampOffset: 0, vp8Offsets: null, unsettledUpTo: -1 },
    transport: { srtp, address: "127.0.0.1", port, deliver: undefined, seated: new Set() },
    extensions: new OutgoingExtensions({}),
    ...{ numbers: null, index: -1, leave() {} },
  };
}

test("bytes that moved meanwhile are found, and seats that change get what was theirs", () => {
  const sent: { port: number; last: number }[] = [];
  const batch = new SendBatch((entries) => {
    for (let i = 0; i < entries.length; i += 3) {
      const data = (entries[i] as Uint8Array).slice();
      const length = new SrtpReceiver(KEY).unprotectRtp(data);
      sent.push({ port: entries[i + 1] as number, last: data[length - 1] as number });
    }
  });
  const audience = new Audience();
  const [first, second] = [seatFor(1), seatFor(2)];
  audience.table.add(first);
  const put = (sequenceNumber: number, last: number): Uint8Array => {
    const data = rtpPacket({ sequenceNumber, payload: 40 });
    data[data.length - 1] = last;
    const view = new RtpView();
    view.parse(data);
    const packet = { view, layer: 0, extended: sequenceNumber, keyframe: true, vp8: new Vp8Descriptor() };
    nativePath.fanOutAlike(packet, audience, 1_000, batch);
    return data;
  };

  const moved = put(1, 7);
  // Its bytes are copied to where a buffer can be made of them, and those in the old place are nobody's.
  expect(moved.buffer.byteLength).toBeGreaterThan(0);
  moved[moved.length - 1] = 8;
  put(2, 9);
  audience.table.add(second);
  put(3, 10);
  audience.table.remove(first);
  put(4, 11);
  nativePath.finishAlike();
  batch.flush();

  expect(sent).toEqual([
    { port: 1, last: 8 },
    { port: 1, last: 9 },
    { port: 1, last: 10 },
    { port: 2, last: 10 },
    { port: 2, last: 11 },
  ]);
  for (const { transport } of [first, second]) transport.srtp.close();
});
