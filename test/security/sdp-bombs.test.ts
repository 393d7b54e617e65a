import { describe, expect, test } from "bun:test";
import { AddTrackRequest, TrackType } from "@livekit/protocol";
import { readSections, withPreferences } from "../../src/gateways/livekit/negotiation/session-description.ts";
import { MAX_TRACKS, PublishedTracks } from "../../src/gateways/livekit/published-tracks.ts";
import { seededRandom } from "../../src/kernel/net/impairment.ts";
import { SDP_MAX_BYTES } from "../../src/protocol/signaling.ts";
import { decideSections, writeAnswer } from "../../src/sfu/wire/sdp/answer.ts";
import { type Offer, parseOffer } from "../../src/sfu/wire/sdp/offer.ts";

const HEAD = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n";
const TRANSPORT = "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 AA:BB\r\n";
const VIDEO = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:0\r\na=rtpmap:96 VP8/90000\r\n";

/** As many of these lines as fit into the largest session description. */
function full(line: (i: number) => string, head = HEAD + TRANSPORT + VIDEO): string {
  const lines = [head];
  let bytes = head.length;
  for (let i = 0; ; i += 1) {
    const next = `${line(i)}\r\n`;
    bytes += next.length;
    if (bytes > SDP_MAX_BYTES) return lines.join("");
    lines.push(next);
  }
}

const half = (first: (i: number) => string, second: (i: number) => string) =>
  full((i) => (i % 2 === 0 ? first(i / 2) : second((i - 1) / 2)));

/** Each fills a list, or sets two lists against each other. */
const BOMBS: Record<string, string> = {
  codecs: full((i) => `a=rtpmap:${i} VP8/90000`),
  "codecs of one number": full(() => "a=rtpmap:96 VP8/90000"),
  "codecs and feedback for all": half(
    (i) => `a=rtpmap:${i % 128} VP8/90000`,
    (i) => `a=rtcp-fb:* x${i}`,
  ),
  "parameters of one codec": full((i) => `a=fmtp:96 a=${i}`),
  "one long parameter": full(() => "", `${HEAD + TRANSPORT + VIDEO}a=fmtp:96 ${"a=b;".repeat(30_000)}\r\n`),
  fingerprints: full((i) => `a=fingerprint:sha-256 ${i}`),
  extensions: full((i) => `a=extmap:${(i % 14) + 1} urn:x${i}`),
  rids: full((i) => `a=rid:r${i} send`),
  simulcast: full(
    () => "",
    `${HEAD + TRANSPORT + VIDEO}a=simulcast:send ${Array.from({ length: 20_000 }, (_, i) => `r${i}`).join(";")}\r\n`,
  ),
  ssrcs: full((i) => `a=ssrc:${i + 1} cname:x`),
  "repair groups and ssrcs": half(
    (i) => `a=ssrc-group:FID ${2 * i + 1} ${2 * i + 2}`,
    (i) => `a=ssrc:${2 * i + 2} cname:x`,
  ),
  formats: full(() => "", `${HEAD + TRANSPORT}m=video 9 UDP/TLS/RTP/SAVPF ${"96 ".repeat(40_000)}\r\na=mid:0\r\n`),
  "two formats, of which one is preferred": full(
    () => "",
    `${HEAD + TRANSPORT}m=video 9 UDP/TLS/RTP/SAVPF ${"96 ".repeat(20_000)}${"97 ".repeat(20_000)}97\r\na=mid:0\r\na=rtpmap:96 VP8/90000\r\n`,
  ),
  sections: full((i) => `m=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:${i}\r\na=rtpmap:0 PCMU/8000`),
  "empty sections": full(() => "m=audio"),
  bundle: `${HEAD}a=group:BUNDLE ${"0 ".repeat(60_000)}\r\n${TRANSPORT}${VIDEO}`,
  "empty lines": full(() => ""),
  "empty attributes": full(() => "a="),
  "a long username": `${HEAD}a=ice-ufrag:${"x".repeat(120_000)}\r\n${TRANSPORT}${VIDEO}`,
};

function answer(sdp: string): Offer | null {
  let offer: Offer;
  try {
    offer = parseOffer(sdp);
  } catch (error) {
    expect((error as { code?: string }).code).toBe("NEGOTIATION_FAILED");
    return null;
  }
  writeAnswer({
    offer,
    sections: decideSections(offer),
    outgoing: new Map(),
    sessionId: "1",
    version: 1,
    ice: { ufrag: "u", pwd: "p" },
    fingerprint: { algorithm: "sha-256", value: "AA" },
    candidates: ["x"],
    maxMessageSize: 1,
  });
  return offer;
}

/** What the gateway for LiveKit's clients does with an offer before the media node gets it. */
function asLivekit(sdp: string): string {
  const permissions = { publish: true, publishAudio: false, publishVideo: false };
  const published = new PublishedTracks({ permissions, room: {} } as never);
  for (let n = 0; n < MAX_TRACKS; n += 1)
    published.add(new AddTrackRequest({ cid: `c${n}`, type: n % 2 === 0 ? TrackType.VIDEO : TrackType.AUDIO }));
  const sections = published.publishedSections(readSections(sdp), {});
  return withPreferences(sdp, published.preferences(sections));
}

/** CPU time of this thread, which does not depend on other work; the minimum of several runs, because garbage collection varies. */
function cpuMs(run: () => void): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5 && least >= 10; i += 1) {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** Everything that is kept of an offer is limited to what one client can need. */
function expectBounded(offer: Offer): void {
  expect(offer.sections.length).toBeLessThanOrEqual(512);
  expect(offer.bundle.length).toBeLessThanOrEqual(512);
  expect(offer.fingerprints.length).toBeLessThanOrEqual(8);
  for (const { codecs, formats, extensions, sendRids, ssrcs } of offer.sections) {
    expect(codecs.length).toBeLessThanOrEqual(128);
    expect(formats.length).toBeLessThanOrEqual(128);
    expect(extensions.size).toBeLessThanOrEqual(64);
    expect(sendRids.length).toBeLessThanOrEqual(16);
    expect(ssrcs.size).toBeLessThanOrEqual(128);
    for (const { feedback } of codecs) expect(feedback.length).toBeLessThanOrEqual(32);
  }
}

describe("a session description that would be very expensive to process", () => {
  for (const [name, sdp] of Object.entries(BOMBS)) {
    test(`${name}: refused, or limited and processed within 50 ms`, () => {
      expect(Buffer.byteLength(sdp)).toBeLessThanOrEqual(SDP_MAX_BYTES);
      const offer = answer(sdp);
      if (offer) expectBounded(offer);
      expect(cpuMs(() => answer(sdp))).toBeLessThan(50);
      expect(cpuMs(() => asLivekit(sdp))).toBeLessThan(50);
    });
  }

  test("one byte over the limit is refused without parsing", () => {
    const sdp = full((i) => `a=x:${i}`);
    expect(() => parseOffer(sdp.padEnd(SDP_MAX_BYTES + 1, "x"))).toThrow(`${SDP_MAX_BYTES} bytes`);
  });

  test("the cost of parsing is linear in the number of lines, for any repeated lines in any order", () => {
    const random = seededRandom(20_261_115);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const number = () => pick([0, 1, 14, 96, 127, 128, 255, 65_536, -1, Number.NaN]);
    const lines: ((i: number) => string)[] = [
      (i) => `m=${pick(["audio", "video"])} ${pick(["0", "9"])} X ${number()} ${number()} ${i}\r\na=mid:${i}`,
      (i) => `a=rtpmap:${pick([i, number()])} ${pick(["VP8", "H264", "opus", "rtx", "x"])}/90000/2`,
      (i) => `a=fmtp:${pick([i, number()])} apt=${number()};profile-id=${i};`,
      (i) => `a=rtcp-fb:${pick(["*", number()])} ${pick(["nack", "nack pli", `x${i}`])}`,
      (i) => `a=extmap:${number()}/${pick(["sendonly", "recvonly", ""])} urn:${i % 100}`,
      (i) => `a=rid:${i % 20} ${pick(["send", "recv"])}`,
      (i) => `a=simulcast:send ${i};~${i + 1},${i + 2} recv x`,
      (i) => `a=ssrc:${pick([i, number()])} cname:x`,
      (i) => `a=ssrc-group:FID ${i} ${pick([i + 1, number()])}`,
      (i) => `a=fingerprint:sha-256 ${i % 9}`,
      () => pick(["a=bundle-only", "a=sendonly", "a=inactive", "a=setup:active", "a=", "x", "=", "a=sctp-port:x"]),
    ];
    for (let round = 0; round < 40; round += 1) {
      const chosen = Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(lines));
      const every = 1 + Math.floor(random() * 40);
      const sdp = full((i) => (i % every === 0 ? pick(lines)(i) : pick(chosen)(i)));
      const offer = answer(sdp);
      if (offer) expectBounded(offer);
      expect(cpuMs(() => answer(sdp))).toBeLessThan(50);
      expect(cpuMs(() => asLivekit(sdp))).toBeLessThan(50);
    }
  });
});
