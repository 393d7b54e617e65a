import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import { MediaError } from "../../../../src/protocol/media-node.ts";
import { decideSections, writeAnswer } from "../../../../src/sfu/wire/sdp/answer.ts";
import { matchCodec, negotiateCodecs } from "../../../../src/sfu/wire/sdp/codecs.ts";
import { type Offer, type OfferedSection, parseOffer } from "../../../../src/sfu/wire/sdp/offer.ts";

const HEAD = ["v=0", "o=- 4611731400430051336 2 IN IP4 127.0.0.1", "s=-", "t=0 0"];
const TRANSPORT = [
  "a=ice-ufrag:abcd",
  "a=ice-pwd:0123456789012345678901",
  "a=fingerprint:sha-256 AA:BB",
  "a=setup:actpass",
];

const VIDEO = [
  "m=video 9 UDP/TLS/RTP/SAVPF 96 97 103 104 107 108 45 116",
  "c=IN IP4 0.0.0.0",
  "a=rtcp:9 IN IP4 0.0.0.0",
  "a=candidate:1 1 udp 1 host.local 5000 typ host",
  ...TRANSPORT,
  "a=mid:1",
  "a=extmap:1 urn:ietf:params:rtp-hdrext:toffset",
  "a=extmap:3 urn:3gpp:video-orientation",
  "a=extmap:4 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
  "a=extmap:9 urn:ietf:params:rtp-hdrext:sdes:mid",
  "a=extmap:10 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id",
  "a=extmap:11 urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id",
  "a=extmap:200 urn:example:beyond-one-byte",
  "a=sendonly",
  "a=rtcp-mux",
  "a=rtcp-rsize",
  "a=rtpmap:96 VP8/90000",
  "a=rtcp-fb:96 goog-remb",
  "a=rtcp-fb:96 transport-cc",
  "a=rtcp-fb:96 ccm fir",
  "a=rtcp-fb:96 nack",
  "a=rtcp-fb:96 nack pli",
  "a=rtpmap:97 rtx/90000",
  "a=fmtp:97 apt=96",
  "a=rtpmap:103 H264/90000",
  "a=fmtp:103 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f",
  "a=rtpmap:104 rtx/90000",
  "a=fmtp:104 apt=103",
  "a=rtpmap:107 H264/90000",
  "a=fmtp:107 level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=42e01f",
  "a=rtpmap:108 rtx/90000",
  "a=fmtp:108 apt=107",
  "a=rtpmap:45 AV1/90000",
  "a=fmtp:45 level-idx=5;profile=0;tier=0",
  "a=rtpmap:116 ulpfec/90000",
  "a=rid:h send",
  "a=rid:q send",
  "a=rid:f send",
  "a=simulcast:send q;~h;f",
];

const AUDIO = [
  "m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9",
  "c=IN IP4 0.0.0.0",
  ...TRANSPORT,
  "a=mid:0",
  "a=sendrecv",
  "a=rtpmap:111 opus/48000/2",
  "a=rtcp-fb:111 transport-cc",
  "a=fmtp:111 minptime=10;useinbandfec=1",
  "a=rtpmap:63 red/48000/2",
  "a=fmtp:63 111/111",
  "a=rtpmap:9 G722/8000",
  "a=ssrc:1234 cname:x",
];

const DATA = [
  "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
  "c=IN IP4 0.0.0.0",
  ...TRANSPORT,
  "a=mid:2",
  "a=sctp-port:5000",
];

const sdp = (...sections: string[][]) => {
  const mids = sections.map((lines) => lines.find((line) => line.startsWith("a=mid:"))?.slice(6));
  return `${[...HEAD, `a=group:BUNDLE ${mids.join(" ")}`, "a=extmap-allow-mixed", ...sections.flat()].join("\r\n")}\r\n`;
};

function answer(offer: Offer): string[] {
  const sections = decideSections(offer);
  const outgoing = new Map(
    sections.filter((s) => s.sends).map((s, i) => [s.mid, { ssrc: 1_000 + i, rtxSsrc: 2_000 + i }]),
  );
  return writeAnswer({
    offer,
    sections,
    outgoing,
    sessionId: "1",
    version: 1,
    ice: { ufrag: "srv", pwd: "secretsecretsecretsecret" },
    fingerprint: { algorithm: "sha-256", value: "CC:DD" },
    candidates: ["1 1 udp 1 192.0.2.1 7001 typ host"],
    maxMessageSize: 70_000,
  }).split("\r\n");
}

/** Lines of the n-th section. */
function section(lines: string[], index: number): string[] {
  const starts = lines.flatMap((line, i) => (line.startsWith("m=") ? [i] : []));
  return lines.slice(starts[index], starts[index + 1]);
}

describe("reading an offer", () => {
  test("a browser's offer is parsed", () => {
    const offer = parseOffer(sdp(AUDIO, VIDEO, DATA));
    expect(offer).toMatchObject({
      sessionId: "4611731400430051336",
      iceUfrag: "abcd",
      setup: "actpass",
      bundle: ["0", "1", "2"],
    });
    expect(offer.fingerprints).toEqual([{ algorithm: "sha-256", value: "AA:BB" }]);
    const [audio, video, data] = offer.sections as [OfferedSection, OfferedSection, OfferedSection];
    expect(audio.direction).toBe("sendrecv");
    expect([...audio.ssrcs]).toEqual([[1234, null]]);
    expect(video.sendRids).toEqual(["q", "h", "f"]);
    expect(video.extensions.has("urn:example:beyond-one-byte")).toBe(false);
    expect(data).toMatchObject({ kind: "application", sctpPort: 5000 });
  });

  test("the parsed offer does not keep the offer's text in memory", () => {
    const heldBytes = () => {
      Bun.gc(true);
      return heapStats().heapSize;
    };
    const unread = Array.from({ length: 1_000 }, (_, n) => `a=x-unread:${n} ${"x".repeat(50)}`);
    const keep = () => parseOffer(`${sdp([...AUDIO, ...unread])}`).iceUfrag;
    keep();
    const before = heldBytes();
    const kept = Array.from({ length: 100 }, keep);
    expect((heldBytes() - before) / kept.length).toBeLessThan(5_000);
  });

  test("an RTX stream is not listed as a stream, whatever the order of lines", () => {
    const lines = ["a=ssrc-group:FID 11 12", "a=ssrc:11 cname:x", "a=ssrc:12 cname:x"];
    for (const order of [lines, lines.toReversed()]) {
      expect([...(parseOffer(sdp([...VIDEO, ...order])).sections[0]?.ssrcs ?? [])]).toEqual([[11, 12]]);
    }
  });

  test("attributes in Firefox's order, parameters and feedback before the codec, mean the same", () => {
    const [media = "", ...attributes] = VIDEO;
    const firefox = parseOffer(sdp([media, ...attributes.toSorted()])).sections[0];
    const chromium = parseOffer(sdp(VIDEO)).sections[0];
    const codecs = (section?: OfferedSection) =>
      section?.codecs
        .map((codec) => ({ ...codec, feedback: codec.feedback.toSorted() }))
        .sort((a, b) => a.payloadType - b.payloadType);
    expect(codecs(firefox)).toEqual(codecs(chromium));
    expect(codecs(firefox)?.find(({ name }) => name === "VP8")?.feedback).toContain("nack pli");
  });

  test.each([
    ["nothing", ""],
    ["no ICE credentials", sdp(AUDIO.filter((line) => !line.startsWith("a=ice-")))],
    ["no fingerprint", sdp(AUDIO.filter((line) => !line.startsWith("a=fingerprint")))],
    ["a passive client", sdp(AUDIO.map((line) => line.replace("actpass", "passive")))],
    ["no mid", sdp(AUDIO.filter((line) => !line.startsWith("a=mid")))],
    ["one mid twice", sdp(AUDIO, AUDIO)],
    ["sections outside the bundle", sdp(AUDIO, VIDEO).replace("BUNDLE 0 1", "BUNDLE 0")],
    ["an unknown kind", sdp(["m=text 9 UDP/TLS/RTP/SAVPF 96", ...TRANSPORT, "a=mid:0"])],
    [
      "too many sections",
      sdp(...Array.from({ length: 600 }, (_, i) => AUDIO.map((line) => line.replace("a=mid:0", `a=mid:${i}`)))),
    ],
  ])("%s is refused with a reason", (_, text) => {
    expect(() => parseOffer(text)).toThrow(MediaError);
  });
});

describe("choosing codecs", () => {
  const codecs = negotiateCodecs(parseOffer(sdp(VIDEO)).sections[0] as OfferedSection);

  test("supported codecs are chosen in the client's order with their RTX", () => {
    expect(codecs.map(({ codec, payloadType, rtxPayloadType }) => [codec, payloadType, rtxPayloadType])).toEqual([
      ["VP8", 96, 97],
      ["H264", 103, 104],
      ["H264", 107, 108],
      ["AV1", 45, null],
    ]);
  });

  test.each(["1e-320", "1e999", "0.5", "1e12", "-48000", "0", ""])(
    "a codec with the clock rate %p is left out: times that are computed with it would end a recording's worker",
    (rate) => {
      const lines = AUDIO.map((line) => line.replace("opus/48000", `opus/${rate}`));
      const [offered] = parseOffer(sdp(lines)).sections as [OfferedSection];
      expect(negotiateCodecs(offered).map(({ codec }) => codec)).toEqual(["red"]);
    },
  );

  test("H.264 matches another profile, but never another packetization mode", () => {
    const published = {
      codec: "H264",
      payloadType: 125,
      rtxPayloadType: null,
      clockRate: 90_000,
      variant: "1",
      profile: "42e0",
      nack: true,
    } as const;
    expect(matchCodec(published, codecs)?.payloadType).toBe(103);
    expect(matchCodec({ ...published, variant: "0" }, codecs)?.payloadType).toBe(107);
    expect(matchCodec({ ...published, variant: "1", profile: "4200" }, codecs)?.payloadType).toBe(103);
    expect(matchCodec({ ...published, codec: "VP9", variant: "0", profile: "" }, codecs)).toBeNull();
    expect(matchCodec({ ...published, variant: "2" }, codecs)).toBeNull();
  });
});

describe("writing the answer", () => {
  const lines = answer(parseOffer(sdp(AUDIO, VIDEO, DATA)));

  test("the answer is ICE-lite, passive and bundled, with every candidate once", () => {
    expect(lines).toContain("a=ice-lite");
    expect(lines).toContain("a=group:BUNDLE 0 1 2");
    expect(lines.filter((line) => line === "a=setup:passive")).toHaveLength(3);
    expect(lines.filter((line) => line.startsWith("a=candidate:"))).toEqual([
      "a=candidate:1 1 udp 1 192.0.2.1 7001 typ host",
    ]);
    expect(lines.some((line) => line.includes("host.local") || line.includes("abcd"))).toBe(false);
  });

  test("a sending section is answered as receiving with its layers, and nothing is sent on it", () => {
    const video = section(lines, 1);
    expect(video[0]).toBe("m=video 9 UDP/TLS/RTP/SAVPF 96 97 103 104 107 108 45");
    expect(video).toContain("a=recvonly");
    expect(video).toContain("a=simulcast:recv q;h;f");
    expect(video.filter((line) => line.startsWith("a=rid:"))).toEqual(["a=rid:q recv", "a=rid:h recv", "a=rid:f recv"]);
    expect(video.filter((line) => line.startsWith("a=rtcp-fb:96"))).toEqual([
      "a=rtcp-fb:96 nack",
      "a=rtcp-fb:96 nack pli",
      "a=rtcp-fb:96 ccm fir",
      "a=rtcp-fb:96 transport-cc",
    ]);
    expect(video.some((line) => line.startsWith("a=ssrc") || line.startsWith("a=msid:"))).toBe(false);
    expect(video).not.toContain("a=extmap:1 urn:ietf:params:rtp-hdrext:toffset");
  });

  test("a publisher gets a start bitrate, a subscriber does not", () => {
    expect(section(lines, 1)).toContain("a=fmtp:96 x-google-start-bitrate=1000");
    expect(section(lines, 1)).toContain("a=fmtp:97 apt=96");
    const viewing = VIDEO.map((line) => line.replace("sendonly", "recvonly")).filter(
      (line) => !/rid|simulcast/.test(line),
    );
    expect(answer(parseOffer(sdp(viewing))).join()).not.toContain("x-google");
  });

  test("a sendrecv section is answered as sendrecv with the server's stream", () => {
    const audio = section(lines, 0);
    expect(audio).toContain("a=sendrecv");
    expect(audio).toContain("a=fmtp:111 minptime=10;useinbandfec=1");
    expect(audio).toContain("a=ssrc:1000 cname:stoa-0");
    expect(audio.some((line) => line.includes("G722"))).toBe(false);
  });

  test("rids are answered on a section that only receives too, or a later camera of Chromium could not simulcast", () => {
    const receiving = VIDEO.filter((line) => !/^a=(rid|simulcast)/.test(line)).map((line) =>
      line.replace("sendonly", "recvonly"),
    );
    const written = answer(parseOffer(sdp(receiving)));
    expect(written).toContain("a=sendonly");
    expect(written).toContain("a=extmap:10 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id");
    expect(written).toContain("a=extmap:11 urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id");
    expect(written.some((line) => line.startsWith("a=rid:"))).toBe(false);
  });

  test("an id that the sections of a bundle use for two extensions is answered for the first, as is an extension with two ids", () => {
    const level = "urn:ietf:params:rtp-hdrext:ssrc-audio-level";
    const mid = "urn:ietf:params:rtp-hdrext:sdes:mid";
    const sendTime = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";
    const audio = [...AUDIO, `a=extmap:1 ${mid}`, `a=extmap:2 ${level}`];
    const video = [
      ...VIDEO.filter((line) => !line.startsWith("a=extmap")),
      `a=extmap:1 ${mid}`,
      `a=extmap:2 ${sendTime}`,
    ];
    const offer = parseOffer(sdp(audio, video));
    expect(
      decideSections(offer).map(({ extensions }) => [extensions.mid, extensions.audioLevel, extensions.absSendTime]),
    ).toEqual([
      [1, 2, 0],
      [1, 0, 0],
    ]);
    const ids = answer(offer).filter((line) => line.startsWith("a=extmap:"));
    expect(ids).toEqual([`a=extmap:1 ${mid}`, `a=extmap:2 ${level}`, `a=extmap:1 ${mid}`]);
    const twice = sdp(
      [...AUDIO, `a=extmap:1 ${mid}`],
      [...video.filter((line) => !line.includes(mid)), `a=extmap:5 ${mid}`],
    );
    expect(decideSections(parseOffer(twice)).map(({ extensions }) => extensions.mid)).toEqual([1, 0]);
  });

  test("[4.2] extensions that Firefox can only send are read and never sent to it", () => {
    const descriptor = "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension";
    const offered = (direction: string) =>
      sdp([...VIDEO.filter((line) => line !== "a=sendonly"), direction, `a=extmap:8/sendonly ${descriptor}`]);
    const [viewing] = decideSections(parseOffer(offered("a=recvonly")));
    expect(viewing?.extensions).toMatchObject({ dependencyDescriptor: 0, mid: 9 });
    expect(answer(parseOffer(offered("a=recvonly"))).join()).not.toContain(descriptor);
    const [sending] = decideSections(parseOffer(offered("a=sendonly")));
    expect(sending?.extensions).toMatchObject({ dependencyDescriptor: 8, mid: 9 });
  });

  test("the n-th receiving audio and video share a stream, so that browsers keep them in step", () => {
    const recv = (base: string[], mid: number) =>
      base
        .map((line) =>
          line
            .replace(/a=mid:\d/, `a=mid:${mid}`)
            .replace("sendrecv", "recvonly")
            .replace("sendonly", "recvonly"),
        )
        .filter((line) => !/rid|simulcast/.test(line));
    const written = answer(parseOffer(sdp(recv(AUDIO, 0), recv(VIDEO, 1), recv(AUDIO, 2), recv(VIDEO, 3))));
    expect(written.filter((line) => line.startsWith("a=msid:"))).toEqual([
      "a=msid:stoa-0 audio-0",
      "a=msid:stoa-0 video-0",
      "a=msid:stoa-1 audio-1",
      "a=msid:stoa-1 video-1",
    ]);
    expect(written).toContain("a=ssrc-group:FID 1001 2001");
  });

  test("a stopped section stays outside of the bundle, and one without a common codec is rejected", () => {
    const stopped = VIDEO.map((line) => line.replace("m=video 9", "m=video 0"));
    const foreign = ["m=audio 9 UDP/TLS/RTP/SAVPF 9", ...TRANSPORT, "a=mid:5", "a=rtpmap:9 G722/8000", "a=sendonly"];
    const written = answer(parseOffer(sdp(AUDIO, stopped, foreign)));
    expect(written).toContain("a=group:BUNDLE 0");
    expect(section(written, 1)).toEqual(expect.arrayContaining(["a=mid:1", "a=inactive"]));
    expect(section(written, 1)[0]).toStartWith("m=video 0 ");
    expect(section(written, 2)[0]).toStartWith("m=audio 0 ");
  });

  test("bundle-only sections come with port 0 and are not rejected", () => {
    const bundled = [...VIDEO.map((line) => line.replace("m=video 9", "m=video 0")), "a=bundle-only"];
    expect(section(answer(parseOffer(sdp(AUDIO, bundled))), 1)[0]).toStartWith("m=video 9 ");
  });

  test("without transport-wide numbers REMB is negotiated", () => {
    const old = VIDEO.filter((line) => !line.includes("transport-wide-cc"));
    expect(section(answer(parseOffer(sdp(old))), 0)).toContain("a=rtcp-fb:96 goog-remb");
  });
});

test("[15] of two extensions with one id in the bundle only the first is answered, as aiortc needs", () => {
  const section = (media: string, mid: string, second: string) =>
    `m=${media} 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:${mid}\r\na=recvonly\r\na=rtpmap:96 ${media === "audio" ? "opus/48000/2" : "VP8/90000"}\r\n` +
    `a=extmap:1 urn:ietf:params:rtp-hdrext:sdes:mid\r\na=extmap:2 ${second}\r\n${TRANSPORT.join("\r\n")}\r\n`;
  const level = "urn:ietf:params:rtp-hdrext:ssrc-audio-level";
  const sendTime = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";
  const sdp = `v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1 2\r\n${section("audio", "0", level)}${section("video", "1", sendTime)}${section("audio", "2", level)}`;
  const ids = decideSections(parseOffer(sdp)).map(({ extensions }) => [
    extensions.mid,
    extensions.audioLevel,
    extensions.absSendTime,
  ]);
  expect(ids).toEqual([
    [1, 2, 0],
    [1, 0, 0],
    [1, 2, 0],
  ]);
});
