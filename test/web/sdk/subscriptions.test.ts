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

/** A peer connection that names its sections as soon as it offers. */
function fakeTransport() {
  const sections: Section[] = [];
  let offers = 0;
  let named = 0;
  const transport = {
    sections,
    get stale() {
      return named < sections.length;
    },
    addSections(kind: Section["kind"], count: number) {
      for (let n = 0; n < count; n++) {
        const transceiver = { mid: null as string | null, receiver: { track: { kind } } };
        sections.push({ kind, transceiver: transceiver as unknown as RTCRtpTransceiver, trackId: null });
      }
    },
    async upToDate() {
      if (!this.stale) return;
      offers += 1;
      for (; named < sections.length; named++)
        Object.assign(sections[named]?.transceiver ?? {}, { mid: String(named) });
    },
  };
  return { transport: transport as unknown as Transport, offers: () => offers };
}

/** Subscriptions of somebody who sees `tracks`; `answers` are thrown instead of an answer, one after another. */
function watching(kinds: Track["kind"][], answers: StoaError[] = []) {
  const tracks: RemoteTrack[] = [];
  const said: SubscriptionChange[][] = [];
  const heard: string[] = [];
  const errors: unknown[] = [];
  let wake = Promise.withResolvers<void>();
  const subscriptions = new Subscriptions({
    tracks: () => tracks,
    async request<Ack>(_type: string, fields: object): Promise<Ack> {
      const answer = answers.shift();
      said.push((fields as { tracks: SubscriptionChange[] }).tracks);
      wake.resolve();
      if (answer) throw answer;
      return {} as Ack;
    },
    onSubscribed: ({ id }) => heard.push(`+${id}`),
    onUnsubscribed: ({ id }) => heard.push(`-${id}`),
    onError: (error) => errors.push(error),
  });
  const publish = (kind: Track["kind"], id = `t${tracks.length + 1}`) => {
    const record = { id, kind, source: kind === "video" ? "camera" : "microphone", name: null, muted: false };
    const person = new RemoteParticipant({ identity: id, metadata: null, joinedAt: "" } as never);
    const track = new RemoteTrack(record as Track, person, true, subscriptions.update);
    tracks.push(track);
    return track;
  };
  for (const kind of kinds) publish(kind);
  const { transport, offers } = fakeTransport();
  return {
    ...{ subscriptions, tracks, publish, said, heard, errors, offers, transport },
    /** The next frame to the server. */
    async next(): Promise<SubscriptionChange[]> {
      await wake.promise;
      wake = Promise.withResolvers();
      return said.at(-1) ?? [];
    },
    start: () => subscriptions.use(transport, LIMITS),
  };
}

const settled = () => Bun.sleep(120);
const first = (tracks: RemoteTrack[]) => tracks[0] as RemoteTrack;

describe("[2] what is asked for follows what the page shows", () => {
  test("the height of the element, in device pixels, rounded up to a step", async () => {
    page.close();
    page = openPage({ devicePixelRatio: 2 });
    const { tracks, start, next } = watching(["video"]);
    first(tracks).attach(page.video(85));
    start();
    expect(await next()).toEqual([{ trackId: "t1", mid: "0", paused: false, maxHeight: 180 }]);
  });

  test("of two elements the taller one counts, and of the rest the next", async () => {
    const { tracks, start, next } = watching(["video"]);
    const [small, large] = [page.video(90), page.video(700)];
    first(tracks).attach(small);
    first(tracks).attach(large);
    start();
    expect(await next()).toMatchObject([{ maxHeight: 720 }]);
    first(tracks).detach(large);
    expect(await next()).toMatchObject([{ maxHeight: 90 }]);
  });

  test("another size is told, one within the same step is not", async () => {
    const { tracks, said, start, next } = watching(["video"]);
    const element = page.video(300);
    first(tracks).attach(element);
    start();
    expect(await next()).toMatchObject([{ maxHeight: 360 }]);
    page.resize(element, 350);
    await settled();
    expect(said).toHaveLength(1);
    page.resize(element, 361);
    expect(await next()).toMatchObject([{ maxHeight: 540 }]);
  });

  test("out of view, or in a tab that nobody sees, it is paused, and comes back", async () => {
    const { tracks, start, next } = watching(["video"]);
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

  test("sound is never paused, and a picture without an element is the page's own affair", async () => {
    const { start, next } = watching(["audio", "video"]);
    page.show(false);
    start();
    expect(await next()).toEqual([
      { trackId: "t1", mid: "0", paused: false },
      { trackId: "t2", mid: "4", paused: false },
    ]);
  });

  test("the page's own choice of layer and priority goes along", async () => {
    const { tracks, start, next } = watching(["video"]);
    first(tracks).setLayer("low");
    first(tracks).setPriority(7);
    start();
    expect(await next()).toEqual([{ trackId: "t1", mid: "0", paused: false, layer: "low", priority: 7 }]);
  });

  test("nothing is watched any more once a track is closed", async () => {
    const { tracks, start, next, subscriptions } = watching(["video"]);
    first(tracks).attach(page.video(360));
    start();
    await next();
    expect(page.left()).toBeGreaterThan(0);
    for (const track of tracks) track.close();
    subscriptions.close();
    expect(page.left()).toBe(0);
  });
});

describe("[2] sections are used again", () => {
  test("five pictures at once make one offer and one frame, and one more none", async () => {
    const { start, next, publish, offers, said, heard, subscriptions } = watching(Array(5).fill("video"));
    start();
    expect((await next()).map(({ mid }) => mid)).toEqual(["0", "1", "2", "3", "4"]);
    expect(heard).toEqual(["+t1", "+t2", "+t3", "+t4", "+t5"]);
    publish("video");
    subscriptions.update();
    expect(await next()).toMatchObject([{ trackId: "t6", mid: "5" }]);
    expect([offers(), said.length]).toEqual([1, 2]);
  });

  test("a track that is not wanted gives its section to the next", async () => {
    const { tracks, start, next, publish, heard, offers } = watching(Array(4).fill("video"));
    start();
    await next();
    first(tracks).setSubscribed(false);
    expect(await next()).toEqual([{ trackId: "t1", mid: null }]);
    expect(first(tracks).mediaStreamTrack).toBeNull();
    const fresh = publish("video");
    fresh.setSubscribed(true);
    expect(await next()).toMatchObject([{ trackId: "t5", mid: "0" }]);
    expect(heard.slice(-2)).toEqual(["-t1", "+t5"]);
    expect(offers()).toBe(1);
  });

  test("many changes in one moment are one frame", async () => {
    const { tracks, start, next, said } = watching(["video"]);
    const element = page.video(100);
    first(tracks).attach(element);
    start();
    await next();
    for (const height of [200, 400, 800, 1000]) page.resize(element, height);
    expect(await next()).toMatchObject([{ maxHeight: 1080 }]);
    await settled();
    expect(said).toHaveLength(2);
  });
});

describe("[2] when the server refuses or is gone", () => {
  test("too many frames: the same again later, and no error", async () => {
    const busy = new StoaError("RATE_LIMITED", "rate-limited", "later", { retryAfterSeconds: 0.05 });
    const { start, next, said, errors } = watching(["video"], [busy]);
    start();
    await next();
    await next();
    expect(said[1]).toEqual(said[0] ?? []);
    expect(errors).toEqual([]);
  });

  test("lost: said again in full on the next connection, while the element keeps what it shows", async () => {
    const lost = new StoaError("CLOSED", "closed", "gone");
    const { tracks, start, next, errors, heard, subscriptions } = watching(["video"], [lost]);
    start();
    const asked = await next();
    await settled();
    expect(errors).toEqual([lost]);
    const { transport } = fakeTransport();
    subscriptions.use(transport, LIMITS);
    expect(await next()).toEqual(asked);
    expect(heard).toEqual(["+t1"]);
    expect(first(tracks).mediaStreamTrack).toBe(transport.sections[0]?.transceiver.receiver.track ?? null);
  });

  test("a permission that is gone ends every subscription", async () => {
    const { start, next, heard, subscriptions } = watching(["audio", "video"]);
    start();
    await next();
    subscriptions.use(null, LIMITS);
    expect(heard).toEqual(["+t1", "+t2", "-t1", "-t2"]);
  });
});

test("[2] a track that ends while an offer is under way is neither shown nor asked for", async () => {
  const { transport, tracks, next, heard, start } = watching(["video", "video"]);
  const { negotiated } = transport;
  const gone = first(tracks);
  transport.negotiated = async () => {
    await negotiated.call(transport);
    tracks.splice(0, 1);
    gone.close();
  };
  start();
  expect((await next()).map(({ trackId }) => trackId)).toEqual(["t2"]);
  expect(heard).toEqual(["+t2"]);
});
