/**
 * An SFU made of mediasoup as its users write one: one worker and one port for all, a router for each room, and for everybody
 * a transport that sends or one for all that the others in the room send. The first line out tells of the worker, then it is
 * one JSON object a line: offers in, answers out.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, address, ioUring] = process.argv.slice(2);
const TRANSPORT_NUMBERS = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
/** As its demo has it. It goes on from there by itself; told of much more than is sent, it probes for that much without end. */
const INITIAL_BPS = 1_000_000;

const installed = await import(pathToFileURL(createRequire(join(folder, "index.js")).resolve("mediasoup")).href);
const { createWorker } = installed.createWorker ? installed : installed.default;
const worker = await createWorker({ logLevel: "error", disableLiburing: ioUring !== "io_uring" });
const listenInfos = [{ protocol: "udp", ip: address }];
const webRtcServer = await worker.createWebRtcServer({ listenInfos });
const mediaCodecs = [
  { kind: "audio", mimeType: "audio/opus", clockRate: 48_000, channels: 2, preferredPayloadType: 111 },
  { kind: "video", mimeType: "video/VP8", clockRate: 90_000, preferredPayloadType: 96 },
];
// Without its worker nobody is answered any more; a client that waits is told by our end.
worker.on("died", () => process.exit(1));
const rooms = new Map();

/** A router, and what is sent in it. */
function roomOf(name) {
  const known = rooms.get(name) ?? worker.createRouter({ mediaCodecs }).then((router) => ({ router, producers: [] }));
  rooms.set(name, known);
  return known;
}

const of = (sdp, pattern) => pattern.exec(sdp)?.[1];

/** What our publisher's offer says, in mediasoup's words. */
function rtpParameters(section, router) {
  const video = section.startsWith("video");
  const payloadType = Number(of(section, /^\w+ \d+ \S+ (\d+)/));
  const codec = video
    ? { mimeType: "video/VP8", payloadType, clockRate: 90_000 }
    : { mimeType: "audio/opus", payloadType, clockRate: 48_000, channels: 2 };
  const feedback = [...section.matchAll(new RegExp(`^a=rtcp-fb:${payloadType} (\\S+) ?(\\S*)`, "gm"))];
  const extensions = [...section.matchAll(/^a=extmap:(\d+) (\S+)/gm)];
  const known = new Set(router.rtpCapabilities.headerExtensions.map(({ uri }) => uri));
  return {
    mid: of(section, /^a=mid:(\S+)/m),
    codecs: [{ ...codec, rtcpFeedback: feedback.map(([, type, parameter]) => ({ type, parameter })) }],
    headerExtensions: extensions.filter(([, , uri]) => known.has(uri)).map(([, id, uri]) => ({ uri, id: Number(id) })),
    encodings: encodingsOf(section),
    rtcp: { cname: "load", reducedSize: true },
  };
}

/** Offers list the largest layer first, mediasoup last. */
function encodingsOf(section) {
  const rids = [...section.matchAll(/^a=rid:(\S+) send/gm)].map(([, rid]) => ({ rid }));
  return rids.length > 0 ? rids.reverse() : [{ ssrc: Number(of(section, /^a=ssrc:(\d+)/m)) }];
}

/** All that the router has, with the feedback that the viewer's offer names. */
function capabilities(sdp, router) {
  const { codecs, headerExtensions } = router.rtpCapabilities;
  const numbered = /^a=rtcp-fb:\d+ transport-cc/m.test(sdp);
  const unwanted = numbered ? "goog-remb" : "transport-cc";
  return {
    codecs: codecs.map((codec) => ({
      ...codec,
      rtcpFeedback: codec.rtcpFeedback.filter(({ type }) => type !== unwanted),
    })),
    headerExtensions: headerExtensions.filter(({ uri }) => numbered || uri !== TRANSPORT_NUMBERS),
  };
}

async function answer({ sdp, publishes, room, participant }) {
  const { router, producers } = await roomOf(room);
  const transport = await router.createWebRtcTransport({ webRtcServer, initialAvailableOutgoingBitrate: INITIAL_BPS });
  const fingerprints = [{ algorithm: "sha-256", value: of(sdp, /^a=fingerprint:sha-256 (\S+)/m) }];
  await transport.connect({ dtlsParameters: { role: "client", fingerprints } });
  if (publishes)
    for (const section of sdp.split(/^m=/m).slice(1)) {
      const kind = section.startsWith("video") ? "video" : "audio";
      const { id } = await transport.produce({ kind, rtpParameters: rtpParameters(section, router) });
      producers.push({ id, participant });
    }
  else {
    const rtpCapabilities = capabilities(sdp, router);
    for (const producer of producers)
      if (producer.participant !== participant)
        await transport.consume({ producerId: producer.id, rtpCapabilities, paused: false });
  }
  const { iceParameters, iceCandidates } = transport;
  const [{ foundation, priority, port }] = iceCandidates;
  return [
    `a=ice-ufrag:${iceParameters.usernameFragment}`,
    `a=ice-pwd:${iceParameters.password}`,
    `a=candidate:${foundation} 1 udp ${priority} ${address} ${port} typ host`,
    "",
  ].join("\r\n");
}

const { router } = await roomOf("");
console.log(JSON.stringify({ pid: worker.pid, extensions: router.rtpCapabilities.headerExtensions }));
for await (const line of createInterface({ input: process.stdin })) {
  const offer = JSON.parse(line);
  console.log(JSON.stringify({ id: offer.id, sdp: await answer(offer) }));
}
worker.close();
process.exit();
