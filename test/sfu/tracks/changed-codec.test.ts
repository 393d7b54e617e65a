import { expect, test } from "bun:test";
import type { FanOutGroup } from "../../../src/sfu/fast-path/fan-out-group.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import type { FanOutTransport } from "../../../src/sfu/forwarding/fan-out-target.ts";
import type { SourcePacket } from "../../../src/sfu/forwarding/source-packet.ts";
import { OutgoingSection } from "../../../src/sfu/tracks/outgoing-section.ts";
import { Publication } from "../../../src/sfu/tracks/publication.ts";
import { DEFAULT_SUBSCRIPTION_SETTINGS, Subscription } from "../../../src/sfu/tracks/subscription.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import type { NegotiatedCodec } from "../../../src/sfu/wire/sdp/codecs.ts";
import { noExtensions } from "../../../src/sfu/wire/sdp/extensions.ts";
import { SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { rtpPacket } from "../packets.ts";

const codec = (name: "PCMU" | "opus", payloadType: number): NegotiatedCodec => ({
  codec: name,
  payloadType,
  rtxPayloadType: null,
  clockRate: name === "opus" ? 48_000 : 8_000,
  variant: "",
  profile: "",
  nack: true,
});

test("[4] a subscriber in a fan-out group gets no packet of a codec that it cannot decode", () => {
  let sent = 0;
  const udp = {
    fanOut(_view: RtpView, _targets: unknown, count: number) {
      sent += count;
    },
    fanOutToGroup(packet: SourcePacket, group: FanOutGroup, nowMs: number) {
      sent += group.size;
      group.advance(packet, nowMs);
    },
    schedule() {},
  } as unknown as UdpPort;
  const publication = new Publication({
    trackId: "t",
    clientTrackId: "c",
    identity: "ann",
    mid: "0",
    kind: "audio",
    source: "microphone",
    rids: [],
    extensions: noExtensions(),
    udp,
  });
  const [layer] = publication.layers;
  if (!layer) throw new Error("a track has a layer");
  const read = codec("opus", 111);
  const section = new OutgoingSection(
    {
      mid: "0",
      kind: "audio",
      rejected: false,
      sends: true,
      receives: false,
      codecs: [read],
      extensions: noExtensions(),
    },
    "audio",
  );
  const profile = "AEAD_AES_128_GCM";
  const key = { profile, key: new Uint8Array(16), salt: new Uint8Array(masterSaltBytes(profile)) } as const;
  const transport: FanOutTransport = {
    srtp: new SrtpSender(key, typescriptPath.createCipher),
    address: "127.0.0.1",
    port: 4_000,
    deliver: undefined,
    slots: new Set(),
  };
  const view = new RtpView();
  const receive = (extended: number, by: NegotiatedCodec) => {
    const data = rtpPacket({ sequenceNumber: extended & 0xffff, payloadType: by.payloadType, timestamp: extended });
    view.parse(data, data.length);
    publication.receive(layer, view, extended, by, extended);
  };

  receive(1, read);
  const subscription = new Subscription(publication, section, DEFAULT_SUBSCRIPTION_SETTINGS, new SentPackets(), {
    changed: () => {},
    mayRequestKeyframe: () => true,
    awaitedSource() {},
  });
  subscription.start(transport);
  subscription.setLayer(layer, "requested", 1);
  for (let extended = 2; extended <= 5; extended++) receive(extended, read);
  expect([sent, layer.group.size]).toEqual([4, 1]);

  for (let extended = 6; extended <= 9; extended++) receive(extended, codec("PCMU", 0));
  expect([sent, layer.group.size, transport.slots.size]).toEqual([4, 0, 0]);
});
