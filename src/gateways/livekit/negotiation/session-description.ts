/** Parses the media sections of a client's session description, and writes offers on behalf of the client. */
import type { TrackKind } from "../../../protocol/room-records.ts";

export type Section = {
  mid: string;
  kind: TrackKind | "application";
  sends: boolean;
  receives: boolean;
  cid: string | null;
};

/** Directions are from the writer's view. The media node checks limits and rejects malformed descriptions. */
export function readSections(sdp: string): Section[] {
  return sdp
    .split(/^m=/m)
    .slice(1)
    .flatMap((text) => {
      const kind = text.slice(0, text.indexOf(" "));
      const mid = /^a=mid:(\S+)/m.exec(text)?.[1];
      const port = text.split(" ", 2)[1];
      if (mid === undefined || (kind !== "audio" && kind !== "video" && kind !== "application")) return [];
      const direction = /^a=(sendrecv|sendonly|recvonly|inactive)\s*$/m.exec(text)?.[1] ?? "sendrecv";
      // Firefox offers bundled sections with port 0 and `bundle-only`; otherwise port 0 means rejected.
      const isOpen = port !== "0" || /^a=bundle-only\s*$/m.test(text);
      return [
        {
          mid,
          kind,
          sends: isOpen && (direction === "sendrecv" || direction === "sendonly"),
          receives: isOpen && (direction === "sendrecv" || direction === "recvonly"),
          cid: /^a=msid:\S+ (\S+)/m.exec(text)?.[1] ?? null,
        },
      ];
    });
}

/** What the description of a published track requests beyond what a browser offers by itself. */
export type PublishPreference = { codec: string | null; dtx: boolean; stereo: boolean };

/**
 * The client's offer with the codec of each published track in front and with DTX and stereo for its Opus, because a
 * browser sends what the answer lists first, and the answer follows the offer.
 */
export function withPreferences(sdp: string, preferences: ReadonlyMap<string, PublishPreference>): string {
  const [head = "", ...sections] = sdp.split(/^(?=m=)/m);
  const changed = sections.map((text) => {
    const wanted = preferences.get(/^a=mid:(\S+)/m.exec(text)?.[1] ?? "");
    return wanted ? preferring(text, wanted) : text;
  });
  return [head, ...changed].join("");
}

function preferring(section: string, { codec, dtx, stereo }: PublishPreference): string {
  const named = new Map(
    [...section.matchAll(/^a=rtpmap:(\d+) ([^/\s]+)/gm)].map(([, type = "", name = ""]) => [type, name.toLowerCase()]),
  );
  const opus = [...named].find(([, name]) => name === "opus")?.[0];
  const more = `${dtx ? ";usedtx=1" : ""}${stereo ? ";stereo=1" : ""}`;
  const ordered = section.replace(/^(m=\S+ \d+ \S+) (.*?)(\r?)$/m, (_, start: string, formats: string, end: string) => {
    const types = formats.split(" ");
    // One pass for each half: an offer may list tens of thousands of types.
    const isFirst = (type: string) => codec !== null && named.get(type) === codec;
    return `${start} ${[...types.filter(isFirst), ...types.filter((type) => !isFirst(type))].join(" ")}${end}`;
  });
  if (opus === undefined || more === "") return ordered;
  return ordered.replace(
    new RegExp(`^(a=fmtp:${opus} \\S+?)(\\r?)$`, "m"),
    (_, line: string, end: string) => line + more + end,
  );
}

const EXTENSIONS = [
  "1 urn:ietf:params:rtp-hdrext:sdes:mid",
  "2 http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
  "3 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time",
];
const AUDIO_EXTENSIONS = [...EXTENSIONS, "4 urn:ietf:params:rtp-hdrext:ssrc-audio-level"];
const VIDEO_EXTENSIONS = [
  ...EXTENSIONS,
  "5 https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension",
  "6 urn:3gpp:video-orientation",
  "7 http://www.webrtc.org/experiments/rtp-hdrext/playout-delay",
];

const H264 = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=";
const VIDEO_CODECS: readonly [payloadType: number, name: string, fmtp?: string][] = [
  [96, "VP8"],
  [98, "VP9", "profile-id=0"],
  [102, "H264", `${H264}42e01f`],
  [104, "H264", `${H264}640c1f`],
  [108, "AV1"],
];

function codecLines(kind: TrackKind): { formats: number[]; lines: string[] } {
  if (kind === "audio") {
    return {
      formats: [111, 63],
      lines: [
        "a=rtpmap:111 opus/48000/2",
        "a=fmtp:111 minptime=10;useinbandfec=1",
        "a=rtcp-fb:111 transport-cc",
        "a=rtcp-fb:111 nack",
        "a=rtpmap:63 red/48000/2",
        "a=fmtp:63 111/111",
      ],
    };
  }
  const lines = VIDEO_CODECS.flatMap(([payloadType, name, fmtp]) => [
    `a=rtpmap:${payloadType} ${name}/90000`,
    ...(fmtp === undefined ? [] : [`a=fmtp:${payloadType} ${fmtp}`]),
    ...["goog-remb", "transport-cc", "ccm fir", "nack", "nack pli"].map((way) => `a=rtcp-fb:${payloadType} ${way}`),
    `a=rtpmap:${payloadType + 1} rtx/90000`,
    `a=fmtp:${payloadType + 1} apt=${payloadType}`,
  ]);
  return { formats: VIDEO_CODECS.flatMap(([payloadType]) => [payloadType, payloadType + 1]), lines };
}

/** The identifiers of a session that the server offers: the ICE credentials change on a restart. */
export type OfferedSession = { sessionId: string; ufrag: string; pwd: string };

/** The offer on behalf of the client; the node's answer to it becomes the server's offer. */
export function writeClientOffer(
  sections: readonly { mid: string; kind: TrackKind }[],
  { sessionId, ufrag, pwd }: OfferedSession,
): string {
  const transport = [`a=ice-ufrag:${ufrag}`, `a=ice-pwd:${pwd}`, "a=setup:actpass"];
  const lines = [
    "v=0",
    `o=- ${sessionId} 1 IN IP4 127.0.0.1`,
    "s=-",
    "t=0 0",
    `a=group:BUNDLE ${["data", ...sections.map(({ mid }) => mid)].join(" ")}`,
    "a=extmap-allow-mixed",
    "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
    "c=IN IP4 0.0.0.0",
    "a=mid:data",
    "a=sctp-port:5000",
    ...transport,
  ];
  for (const { mid, kind } of sections) {
    const codecs = codecLines(kind);
    lines.push(
      `m=${kind} 9 UDP/TLS/RTP/SAVPF ${codecs.formats.join(" ")}`,
      "c=IN IP4 0.0.0.0",
      `a=mid:${mid}`,
      "a=recvonly",
      "a=rtcp-mux",
      "a=rtcp-rsize",
      ...(kind === "audio" ? AUDIO_EXTENSIONS : VIDEO_EXTENSIONS).map((extension) => `a=extmap:${extension}`),
      ...codecs.lines,
      ...transport,
    );
  }
  return `${lines.join("\r\n")}\r\n`;
}

export const answerToOffer = (answer: string) => answer.replaceAll("a=setup:passive", "a=setup:actpass");

/** Turns the client's answer into the client's offer of the same session. */
export const answerToClientOffer = (answer: string, { sessionId }: OfferedSession) =>
  answer.replace(/^o=.*$/m, `o=- ${sessionId} 2 IN IP4 127.0.0.1`);

/** The client's ICE credentials, which stay the same until a restart is offered. */
export function readCredentials(sdp: string): Pick<OfferedSession, "ufrag" | "pwd"> | null {
  const ufrag = /^a=ice-ufrag:(\S+)/m.exec(sdp)?.[1];
  const pwd = /^a=ice-pwd:(\S+)/m.exec(sdp)?.[1];
  return ufrag === undefined || pwd === undefined ? null : { ufrag, pwd };
}
