import { expect, test } from "bun:test";
import { SessionDescription } from "@livekit/protocol";
import { twoConnections } from "../../../src/gateways/livekit/negotiation/two-connections.ts";
import { trackSid } from "../../../src/protocol/media/livekit-sids.ts";

type Sent = { case: string; value: SessionDescription };

const ufragOf = (sdp: string) => /^a=ice-ufrag:(\S+)/m.exec(sdp)?.[1];
const sessionOf = (sdp: string) => /^o=- (\S+)/m.exec(sdp)?.[1];
const written = (ufrag: string) =>
  `v=0\r\no=- 77 2 IN IP4 127.0.0.1\r\na=ice-ufrag:${ufrag}\r\na=ice-pwd:of-${ufrag}\r\n`;

test("the media node gets the client's own ICE credentials, and new ones only after an ICE restart was offered", async () => {
  const offers: string[] = [];
  const node = {
    async negotiate({ sdp, connection }: { sdp: string; connection?: string }) {
      if (connection === "receive") offers.push(sdp);
      return { sdp: "v=0\r\na=setup:passive\r\n", tracks: [] };
    },
  };
  const negotiator = twoConnections({
    session: { room: { id: "r" }, id: "s" },
    node: () => node,
    published: { publishedSections: () => [], preferences: () => new Map() },
    selection: { wanted: () => [], limitTo: () => {} },
    send: () => {},
  } as never);
  let id = 0;
  const answers = (ufrag: string) =>
    negotiator.onAnswer(new SessionDescription({ type: "answer", sdp: written(ufrag), id: ++id }));

  await negotiator.onOffer(new SessionDescription({ type: "offer", sdp: "v=0\r\n", id: 1 }));
  await answers("theirs");
  expect(ufragOf(offers[1] ?? "")).toBe("theirs");
  expect(new Set(offers.map(sessionOf)).size).toBe(1);
  await negotiator.resume();
  const restart = ufragOf(offers[2] ?? "");
  expect([ufragOf(offers[0] ?? ""), "theirs"]).not.toContain(restart);
  await answers("new");
  expect(offers.map(ufragOf).slice(3)).toEqual(["new"]);
});

test("an answer to what the client publishes repeats which tracks it receives, as livekit-client 2.15 forgets them otherwise", async () => {
  const sent: Sent[] = [];
  const negotiator = twoConnections({
    session: { room: { id: "r" }, id: "s" },
    node: () => ({ negotiate: async () => ({ sdp: "v=0\r\na=setup:passive\r\n", tracks: [] }) }),
    published: { publishedSections: () => [], preferences: () => new Map() },
    selection: {
      wanted: () => [{ trackId: "trk_1", kind: "audio", track: { source: "microphone" }, publisher: { id: "p" } }],
      limitTo: () => {},
      settingsOf: () => ({ paused: false, layer: "auto", priority: 0 }),
    },
    send: (message: Sent) => void sent.push(message),
  } as never);
  const publishes = (id: number) => negotiator.onOffer(new SessionDescription({ type: "offer", sdp: "v=0\r\n", id }));
  await publishes(1);
  await publishes(2);
  expect(sent.map((message) => message.case)).toEqual(["answer", "offer", "answer"]);
  const [, offer, answer] = sent.map(({ value }) => value.midToTrackId);
  expect(Object.values(offer ?? {})).toEqual([trackSid("trk_1")]);
  expect(answer).toEqual(offer as Record<string, string>);
});
