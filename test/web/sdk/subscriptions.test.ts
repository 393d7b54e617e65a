import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Track } from "../../../src/protocol/room-records.ts";
import type { SubscriptionChange } from "../../../src/protocol/signaling.ts";
import { StoaError } from "../../../web/sdk/errors.ts";
import { Subscriptions } from "../../../web/sdk/room/peer/subscriptions.ts";
import type { Section, Transport } from "../../../web/sdk/room/peer/transport.ts";
import { RemoteParticipant, RemoteTrack } from "../../../web/sdk/room/remote-participant.ts";
import { openPage, type Page } from "./page.ts";

const LIMITS = { maxMessageBytes: 16_384, messagesPerWindow: 1000, windowSeconds: 60, maxParticipants: 50 };

let page: Page;
beforeEach(() => {
  page = openPage();
});
afterEach(() => page.close());

/** A fake transport that assigns mids to its sections on each offer. */
function fakeTransport() {
  const sections: Section[] = [];
  const voices: Section[] = [];
  let offers = 0;
  const unnamed = () => [...sections, ...voices].filter(({ transceiver }) => transceiver.mid === null);
  const transport = {
    sections,
    voices,
    get negotiationNeeded() {
      return unnamed().length > 0;
    },
    addSections(kind: Section["kind"], count: number, to = sections) {
      for (let n = 0; n < count; n++) {
        const transceiver = { mid: null as string | null, receiver: { track: { kind } } };
        to.push({
          kind,
          transceiver: transceiver as unknown as RTCRtpTransceiver,
          trackId: null,
          decryptor: null,
        });
      }
    },
    async negotiated() {
      if (!this.negotiationNeeded) return;
      offers += 1;
      for (const { transceiver } of unnamed()) {
        const named = sections.length + voices.length - unnamed().length;
        Object.assign(transceiver, { mid: String(named) });
      }
    },
  };
  return { transport: transport as unknown as Transport, offers: () => offers };
}

/** Subscriptions to one track of each kind; each request throws the next of `errors`, if there is one. */
function subscribed(kinds: Track["kind"][], failures: StoaError[] = [], sharesVoices = false) {
  const tracks: RemoteTrack[] = [];
  const sent: SubscriptionChange[][] = [];
  const events: string[] = [];
  const errors: unknown[] = [];
  let wake = Promise.withResolvers<void>();
  const subscriptions = new Subscriptions({
    tracks: () => tracks,
    async request<Ack>(_type: string, fields: object): Promise<Ack> {
      const failure = failures.shift();
      sent.push((fields as { tracks: SubscriptionChange[] }).tracks);
      wake.resolve();
      if (failure) throw failure;
      return {} as Ack;
    },
    onSubscribed: ({ id }) => events.push(`+${id}`),
    onUnsubscribed: ({ id }) => events.push(`-${id}`),
    onError: (error) => errors.push(error),
    sharesVoices,
    encryption: null,
  });
  const publish = (kind: Track["kind"], id = `t${tracks.length + 1}`) => {
    const record = { id, kind, source: kind === "video" ? "camera" : "microphone", name: null, muted: false };
    const participant = new RemoteParticipant({ identity: id, metadata: null, joinedAt: "" } as never);
    const track = new RemoteTrack(record as Track, participant, true, subscriptions.update);
    tracks.push(track);
    return track;
  };
  for (const kind of kinds) publish(kind);
  const { transport, offers } = fakeTransport();
  return {
    subscriptions,
    tracks,
    publish,
    sent,
    events,
    errors,
    offers,
    transport,
    /** Resolves with the changes of the next request. */
    async next(): Promise<SubscriptionChange[]> {
      await wake.promise;
      wake = Promise.withResolvers();
      return sent.at(-1) ?? [];
    },
    start: () => subscriptions.use(transport, { limits: LIMITS, roster: "all" }),
  };
}

const settled = () => Bun.sleep(120);
const first = (tracks: RemoteTrack[]) => tracks[0] as RemoteTrack;

describe("[2] subscription settings follow the page's elements", () => {
  test("the requested height is that of the element in device pixels, rounded up", async () => {
    page.close();
    page = openPage({ devicePixelRatio: 2 });
    const { tracks, start, next } = subscribed(["video"]);
    first(tracks).attach(page.video(85));
    start();
    expect(await next()).toEqual([{ trackId: "t1", mid: "0", paused: false, maxHeight: 180 }]);
  });

  test("the tallest attached element determines the requested height", async () => {
    const { tracks, start, next } = subscribed(["video"]);
    const [small, large] = [page.video(90), page.video(700)];
    first(tracks).attach(small);
    first(tracks).attach(large);
    start();
    expect(await next()).toMatchObject([{ maxHeight: 720 }]);
    first(tracks).detach(large);
    expect(await next()).toMatchObject([{ maxHeight: 90 }]);
  });

  test("a size is sent only if its rounded height has changed", async () => {
    const { tracks, sent, start, next } = subscribed(["video"]);
    const element = page.video(300);
    first(tracks).attach(element);
    start();
    expect(await next()).toMatchObject([{ maxHeight: 360 }]);
    page.resize(element, 350);
    await settled();
    expect(sent).toHaveLength(1);
    page.resize(element, 361);
    expect(await next()).toMatchObject([{ maxHeight: 540 }]);
  });

  test("a track is paused while its element is out of view or the tab is hidden", async () => {
    const { tracks, start, next } = subscribed(["video"]);
    const element = page.video(360);
    first(tracks).attach(element);
    start();
    await next();
    page.scroll(element, false);
    expect(await next()).toEqual([{ trackId: "t1", mid: "0", paused: true }]);
    page.scroll(element, true);
    expect(await next()).toMatchObject([{ paused: false, maxHeight: 360 }]);
    page.show(false);
    expect(await next()).toMatchObject([{ paused: true }]);
    page.show(true);
    expect(await next()).toMatchObject([{ paused: false, maxHeight: 360 }]);
  });

  test("audio and video without an element are never paused", async () => {
    const { start, next } = subscribed(["audio", "video"]);
    page.show(false);
    start();
    expect(await next()).toEqual([
      { trackId: "t1", mid: "0", paused: false },
      { trackId: "t2", mid: "4", paused: false },
    ]);
  });

  test("the layer and the priority that the page sets are sent", async () => {
    const { tracks, start, next } = subscribed(["video"]);
    first(tracks).setLayer("low");
    first(tracks).setPriority(7);
    start();
    expect(await next()).toEqual([{ trackId: "t1", mid: "0", paused: false, layer: "low", priority: 7 }]);
  });

  test("closing a track disconnects its observers", async () => {
    const { tracks, start, next, subscriptions } = subscribed(["video"]);
    first(tracks).attach(page.video(360));
    start();
    await next();
    expect(page.listenerCount()).toBeGreaterThan(0);
    for (const track of tracks) track.close();
    subscriptions.close();
    expect(page.listenerCount()).toBe(0);
  });
});

describe("[2] sections are reused", () => {
  test("five new videos cause one offer and one request, and a sixth causes no offer", async () => {
    const { start, next, publish, offers, sent, events, subscriptions } = subscribed(Array(5).fill("video"));
    start();
    expect((await next()).map(({ mid }) => mid)).toEqual(["0", "1", "2", "3", "4"]);
    expect(events).toEqual(["+t1", "+t2", "+t3", "+t4", "+t5"]);
    publish("video");
    subscriptions.update();
    expect(await next()).toMatchObject([{ trackId: "t6", mid: "5" }]);
    expect([offers(), sent.length]).toEqual([1, 2]);
  });

  test("the section of an unsubscribed track is assigned to the next track", async () => {
    const { tracks, start, next, publish, events, offers } = subscribed(Array(4).fill("video"));
    start();
    await next();
    first(tracks).setSubscribed(false);
    expect(await next()).toEqual([{ trackId: "t1", mid: null }]);
    expect(first(tracks).mediaStreamTrack).toBeNull();
    const fresh = publish("video");
    fresh.setSubscribed(true);
    expect(await next()).toMatchObject([{ trackId: "t5", mid: "0" }]);
    expect(events.slice(-2)).toEqual(["-t1", "+t5"]);
    expect(offers()).toBe(1);
  });

  test("changes in quick succession are sent in one request", async () => {
    const { tracks, start, next, sent } = subscribed(["video"]);
    const element = page.video(100);
    first(tracks).attach(element);
    start();
    await next();
    for (const height of [200, 400, 800, 1000]) page.resize(element, height);
    expect(await next()).toMatchObject([{ maxHeight: 1080 }]);
    await settled();
    expect(sent).toHaveLength(2);
  });
});

describe("[2] failed requests", () => {
  test("a rate-limited request is repeated later without an error", async () => {
    const busy = new StoaError("RATE_LIMITED", "rate-limited", "later", { retryAfterSeconds: 0.05 });
    const { start, next, sent, errors } = subscribed(["video"], [busy]);
    start();
    await next();
    await next();
    expect(sent[1]).toEqual(sent[0] ?? []);
    expect(errors).toEqual([]);
  });

  test("a track that ended while it was subscribed is no error", async () => {
    const { start, next, errors } = subscribed(["video"], [new StoaError("TRACK_NOT_FOUND", "not-found", "no track")]);
    start();
    await next();
    await settled();
    expect(errors).toEqual([]);
  });

  test("a lost request is repeated in full on the next connection, and the element keeps its media", async () => {
    const lost = new StoaError("CLOSED", "closed", "ended");
    const { tracks, start, next, errors, events, subscriptions } = subscribed(["video"], [lost]);
    start();
    const asked = await next();
    await settled();
    expect(errors).toEqual([lost]);
    const { transport } = fakeTransport();
    subscriptions.use(transport, { limits: LIMITS, roster: "all" });
    expect(await next()).toEqual(asked);
    expect(events).toEqual(["+t1"]);
    expect(first(tracks).mediaStreamTrack).toBe(transport.sections[0]?.transceiver.receiver.track ?? null);
  });

  test("losing the permission to subscribe ends every subscription", async () => {
    const { start, next, events, subscriptions } = subscribed(["audio", "video"]);
    start();
    await next();
    subscriptions.use(null, { limits: LIMITS, roster: "all" });
    expect(events).toEqual(["+t1", "+t2", "-t1", "-t2"]);
  });
});

test("[2] a track that ends during an offer is neither delivered nor requested", async () => {
  const { transport, tracks, next, events, start } = subscribed(["video", "video"]);
  const { negotiated } = transport;
  const ended = first(tracks);
  transport.negotiated = async () => {
    await negotiated.call(transport);
    tracks.splice(0, 1);
    ended.close();
  };
  start();
  expect((await next()).map(({ trackId }) => trackId)).toEqual(["t2"]);
  expect(events).toEqual(["+t2"]);
});

describe("[2] shared voices", () => {
  const eight = Array.from({ length: 8 }, () => "audio" as const);
  const playing = (tracks: RemoteTrack[]) =>
    tracks.filter(({ mediaStreamTrack }) => mediaStreamTrack).map(({ id }) => id);

  test("six microphones have sections of their own, further ones take turns on six shared ones, with one more offer", async () => {
    const { start, next, events, offers, tracks, subscriptions, publish, transport } = subscribed(eight, [], true);
    start();
    expect((await next()).map(({ trackId }) => trackId)).toEqual(["t1", "t2", "t3", "t4", "t5", "t6"]);
    const shared = subscriptions.mapping().filter((section) => "voices" in section);
    expect([shared.length, offers()]).toEqual([6, 1]);
    const [mid = "", second = ""] = shared.map((section) => section.mid);
    subscriptions.voicesChanged({ [mid]: "t7" });
    await settled();
    expect(playing(tracks)).toEqual(["t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
    subscriptions.voicesChanged({ [mid]: "t8", [second]: "late" });
    await settled();
    expect(playing(tracks)).toEqual(["t1", "t2", "t3", "t4", "t5", "t6", "t8"]);
    publish("audio", "late");
    subscriptions.update();
    await settled();
    expect([events.slice(-3), offers()]).toEqual([["-t7", "+t8", "+late"], 1]);
    expect(tracks.at(-1)?.mediaStreamTrack).toBe(transport.voices[1]?.transceiver.receiver.track ?? null);
  });

  test("a microphone that the page subscribes to itself gets its own section, and one that it ends is not heard", async () => {
    const { start, next, tracks, subscriptions } = subscribed(eight, [], true);
    start();
    await next();
    const [mid = ""] = subscriptions.mapping().flatMap((section) => ("voices" in section ? [section.mid] : []));
    subscriptions.voicesChanged({ [mid]: "t7" });
    tracks[6]?.setSubscribed(false);
    await settled();
    expect(playing(tracks)).not.toContain("t7");
    tracks[7]?.setSubscribed(true);
    expect((await next()).map(({ trackId }) => trackId)).toEqual(["t8"]);
    expect(playing(tracks)).toContain("t8");
  });

  test("in a small room every microphone has its own section", async () => {
    const { start, next, subscriptions } = subscribed(eight);
    start();
    expect((await next()).length).toBe(8);
    expect(subscriptions.mapping().filter((section) => "voices" in section)).toEqual([]);
  });
});
