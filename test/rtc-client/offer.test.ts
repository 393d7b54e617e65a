import { expect, test } from "bun:test";
import { carriesMedia, type PeerSection, writeOffer } from "../../src/rtc-client/sdp.ts";
import { createCertificate } from "../../src/sfu/werift/werift-hooks.ts";

const PROBES = 127;

test("of all offered payload types only those of retransmissions carry no new media", async () => {
  const sections: PeerSection[] = [
    { kind: "audio", direction: "recvonly", red: true },
    { kind: "video", direction: "recvonly", codecs: ["VP8", "VP9", "H264", "AV1"] },
  ];
  const ice = { ufrag: "ufrag", pwd: "password" };
  const sdp = writeOffer(sections, { sessionId: "1", ice, certificate: await createCertificate() });
  const offered = [...sdp.matchAll(/^a=rtpmap:(\d+) (\w+)/gm)].map(([, number, codec]) => ({
    number: Number(number),
    codec,
  }));
  expect(offered).toHaveLength(10);
  for (const { number, codec } of offered)
    for (const marker of [0, 0x80])
      expect([codec, carriesMedia(new Uint8Array([0x80, marker | number]))]).toEqual([codec, codec !== "rtx"]);
  expect(carriesMedia(new Uint8Array([0x80, PROBES]))).toBe(false);
});
