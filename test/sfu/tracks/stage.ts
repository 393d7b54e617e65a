/** A published track and its viewers, without a network: the packets that each viewer is sent are recorded. */

import type { FanOutGroup } from "../../../src/sfu/fast-path/fan-out-group.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { describeCopy } from "../../../src/sfu/fast-path/subscriber-slot.ts";
import { createTarget, type FanOutTarget, type FanOutTransport } from "../../../src/sfu/forwarding/fan-out-target.ts";
import type { SourcePacket } from "../../../src/sfu/forwarding/source-packet.ts";
import { OutgoingSection } from "../../../src/sfu/tracks/outgoing-section.ts";
import { Publication } from "../../../src/sfu/tracks/publication.ts";
import type { PublishedLayer } from "../../../src/sfu/tracks/published-layer.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../../../src/sfu/tracks/subscription.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { Reception } from "../../../src/sfu/wire/rtcp/reception.ts";
import { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import type { NegotiatedCodec } from "../../../src/sfu/wire/sdp/codecs.ts";
import { noExtensions } from "../../../src/sfu/wire/sdp/extensions.ts";
import { SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { rtpPacket } from "../packets.ts";

const KEY = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;

export type SentCopy = { sequenceNumber: number; timestamp: number; marker: boolean; payload: Uint8Array };

/** The id of the dependency descriptor. */
const DESCRIPTOR = 9;
export type StageViewer = { subscription: Subscription; seen: SentCopy[] };

export class Stage {
  readonly publication: Publication;
  readonly layer: PublishedLayer;
  /** The copies that were sent to fan-out groups, and those to slow-path subscribers. */
  groupCopies = 0;
  slowPathCopies = 0;
  readonly #codec: NegotiatedCodec;
  readonly #viewers = new Map<number, StageViewer>();

  constructor(codec: "VP8" | "H264" | "VP9" | "AV1", rids: readonly string[] = []) {
    this.#codec = {
      codec,
      payloadType: 96,
      rtxPayloadType: 97,
      clockRate: 90_000,
      variant: "",
      profile: "",
      nack: true,
    };
    const note = (target: FanOutTarget, { data, payloadOffset, payloadLength }: RtpView) => {
      const { sequenceNumber, timestamp, marker } = target;
      const payload = data.slice(payloadOffset, payloadOffset + payloadLength);
      payload.set(target.prefix.subarray(0, target.prefixLength));
      this.#viewers.get(target.ssrc)?.seen.push({ sequenceNumber, timestamp, marker, payload });
    };
    const copy = createTarget(transport(), new OutgoingExtensions({}));
    const udp = {
      fanOut: (view: RtpView, targets: readonly FanOutTarget[], count: number) => {
        this.slowPathCopies += count;
        for (const target of targets.slice(0, count)) note(target, view);
      },
      fanOutToGroup: (packet: SourcePacket, group: FanOutGroup, nowMs: number) => {
        this.groupCopies += group.size;
        for (const slot of group.table.slots) {
          describeCopy(slot, packet, nowMs, copy);
          note(copy, packet.view);
        }
        group.advance(packet, nowMs);
      },
      schedule() {},
    } as unknown as UdpPort;
    this.publication = new Publication({
      trackId: "t",
      clientTrackId: "c",
      identity: "ann",
      mid: "0",
      kind: "video",
      source: "camera",
      rids,
      extensions: { ...noExtensions(), dependencyDescriptor: DESCRIPTOR },
      udp,
    });
    this.layer = this.publication.layers[0] as PublishedLayer;
    for (const [n, layer] of this.publication.layers.entries()) {
      layer.ssrc = n + 1;
      layer.reception = new Reception(layer.ssrc, 90_000);
    }
  }

  watch(nowMs: number, { readsDependencies = true } = {}): StageViewer {
    const answered = { mid: "0", kind: "video", rejected: false, sends: true, receives: false } as const;
    const extensions = { ...noExtensions(), dependencyDescriptor: readsDependencies ? DESCRIPTOR : 0 };
    const section = new OutgoingSection({ ...answered, codecs: [this.#codec], extensions }, "video");
    const subscription = new Subscription(this.publication, section, DEFAULT_SUBSCRIPTION_SETTINGS, new SentPackets(), {
      changed: () => {},
      mayRequestKeyframe: () => true,
      awaitedSource: () => subscription.setLayer(this.layer, "requested", nowMs),
    });
    const viewer = { subscription, seen: [] };
    this.#viewers.set(section.stream.ssrc, viewer);
    subscription.start(transport());
    subscription.setLayer(this.layer, "requested", nowMs);
    return viewer;
  }

  /** Passes a packet on like the uplink. */
  receive(
    sequenceNumber: number,
    timestamp: number,
    payload: Uint8Array,
    nowMs: number,
    layer = this.layer,
    { marker = false, descriptor }: { marker?: boolean; descriptor?: Uint8Array } = {},
  ): void {
    const view = new RtpView();
    const extensions = descriptor ? [{ id: DESCRIPTOR, data: descriptor }] : [];
    const shape = { sequenceNumber: sequenceNumber & 0xffff, timestamp, payloadType: 96, marker, extensions, payload };
    view.parse(rtpPacket(shape));
    const extended = layer.reception?.receive(view.sequenceNumber, timestamp, view.length, nowMs) ?? 0;
    this.publication.receive(layer, view, extended, this.#codec, nowMs);
  }
}

function transport(): FanOutTransport {
  const srtp = new SrtpSender(KEY, typescriptPath.createCipher);
  return { srtp, address: "127.0.0.1", port: 4_000, deliver: undefined, slots: new Set() };
}
