import { createTarget, type FanOutTarget, type FanOutTransport } from "../../../src/sfu/forwarding/fan-out-target.ts";
import { Forwarder } from "../../../src/sfu/forwarding/forwarder.ts";
import type { MediaCodec } from "../../../src/sfu/wire/codec/keyframe.ts";
import { startsKeyframe } from "../../../src/sfu/wire/codec/keyframe.ts";
import { Vp8Descriptor } from "../../../src/sfu/wire/codec/vp8.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { rtpPacket } from "../packets.ts";

const KEY = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;
/** Leads nowhere: what is looked at is the target, before it is sent. */
export const TRANSPORT: FanOutTransport = {
  srtp: new SrtpSender(KEY),
  address: "",
  port: 0,
  deliver: undefined,
  slots: new Set(),
};

interface Frame {
  extended: number;
  timestamp?: number;
  key?: boolean;
  marker?: boolean;
  empty?: boolean;
  pictureId?: number;
  tl0?: number;
}

/** One viewer, fed by hand. */
export class Viewer {
  readonly forwarder: Forwarder;
  readonly target: FanOutTarget = createTarget(TRANSPORT, new OutgoingExtensions({}));
  nowMs = 10_000;

  constructor(
    readonly codec: MediaCodec = "vp8",
    first = 1_000,
  ) {
    this.forwarder = new Forwarder({
      ssrc: 42,
      clockRate: codec === "audio" ? 48_000 : 90_000,
      codec,
      payloadType: 45,
      firstSequence: first,
      firstTimestamp: 500_000,
    });
  }

  /** The outgoing packet, or undefined when it was not forwarded. */
  feed(layer: number, frame: Frame): { seq: number; ts: number; marker: boolean; id: number; tl0: number } | undefined {
    const id = frame.pictureId ?? 0;
    const payload = frame.empty
      ? new Uint8Array(0)
      : Uint8Array.of(0x90, 0xe0, 0x80 | (id >> 8), id & 0xff, frame.tl0 ?? 0, 0, frame.key ? 0x10 : 0x11, 0, 0);
    const view = new RtpView();
    view.parse(
      rtpPacket({
        sequenceNumber: frame.extended & 0xffff,
        timestamp: (frame.timestamp ?? 0) >>> 0,
        marker: frame.marker ?? false,
        payload,
        padding: frame.empty ? 20 : 0,
      }),
    );
    const vp8 = new Vp8Descriptor();
    const keyframe = startsKeyframe(this.codec, view, vp8);
    const packet = { view, layer, extended: frame.extended, keyframe, vp8 };
    if (!this.forwarder.forward(packet, this.target, this.nowMs)) return undefined;
    const { sequenceNumber: seq, timestamp: ts, marker, prefix } = this.target;
    return {
      seq,
      ts,
      marker,
      id: (((prefix[2] as number) << 8) | (prefix[3] as number)) & 0x7fff,
      tl0: prefix[4] as number,
    };
  }
}
