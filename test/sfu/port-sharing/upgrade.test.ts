import { afterEach, describe, expect, test } from "bun:test";
import { EmbeddedMedia, type EmbeddedMediaOptions } from "../../../src/nodes/embedded-media.ts";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import type { SharedPort } from "../../../src/sfu/transport/port-sharing/port-sharing.ts";
import { ALL, CAMERA } from "../room-of-peers.ts";

const FRAME_MS = 10;

/** A sender and a viewer of a room, and what was sent and arrived. */
class OneCall {
  sent = 0;
  readonly #source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  #timer: Timer | null = null;

  private constructor(
    readonly publisher: RtcPeer,
    readonly viewer: RtcPeer,
  ) {}

  static async open(media: EmbeddedMedia, roomId: string, host: string): Promise<OneCall> {
    await media.openRoom({ roomId });
    const join = async (participantId: string, direction: "sendonly" | "recvonly") => {
      await media.addParticipant({ roomId, participantId, identity: participantId, permissions: ALL });
      return await RtcPeer.create({
        node: media,
        roomId,
        participantId,
        hostname: host,
        sections: [{ kind: "video", direction }],
      });
    };
    const publisher = await join("p", "sendonly");
    const { promise, resolve } = Promise.withResolvers<string>();
    const forget = media.onEvent((event) => {
      if (event.type === "trackPublished" && event.roomId === roomId) resolve(event.track.id);
    });
    await publisher.connect([CAMERA], []);
    const first = new OneCall(publisher, publisher);
    first.#source.sendFrame(publisher, true);
    const trackId = await promise;
    forget();
    const viewer = await join("v", "recvonly");
    await viewer.connect([], [{ mid: "0", trackId }]);
    const call = new OneCall(publisher, viewer);
    call.#source.sequenceNumber = first.#source.sequenceNumber;
    call.#source.timestamp = first.#source.timestamp;
    for (let i = 0; viewer.mediaIn === 0 && i < 200; i++, await Bun.sleep(FRAME_MS))
      call.#source.sendFrame(publisher, true);
    await Bun.sleep(50);
    viewer.mediaIn = 0;
    return call;
  }

  /** Sends a packet of media every few milliseconds until it is stopped. */
  start(): void {
    this.#timer = setInterval(() => {
      this.#source.sendFrame(this.publisher, false);
      this.sent++;
    }, FRAME_MS);
  }

  stop(): void {
    clearInterval(this.#timer ?? undefined);
  }

  /** Waits until everything that was sent has arrived, or does not come any more. */
  async lost(): Promise<number> {
    this.stop();
    for (let i = 0; this.viewer.mediaIn < this.sent && i < 200; i++) await Bun.sleep(10);
    return this.sent - this.viewer.mediaIn;
  }

  /** The number of clients' checks that the server has answered. */
  get answered(): number {
    return this.publisher.checksAnswered + this.viewer.checksAnswered;
  }

  close(): void {
    this.stop();
    this.publisher.close();
    this.viewer.close();
  }
}

const HOSTS = [
  ["typescript", "127.0.0.1", "127.0.0.1"],
  ["typescript", "::", "::1"],
  ["native", "::1", "::1"],
  ["native", "::", "127.0.0.1"],
] as const;

describe("two processes on the same media ports", () => {
  const cleanup: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of cleanup.splice(0).reverse()) await close();
  });
  const log = { info: () => {}, error: () => {} };
  const until = async (check: () => boolean | Promise<boolean>) => {
    for (let i = 0; i < 1_000 && !(await check()); i++) await Bun.sleep(5);
    expect(await check()).toBe(true);
  };
  const start = async (options: Partial<EmbeddedMediaOptions> = {}) => {
    const hostname = options.hostname ?? "127.0.0.1";
    const announce = hostname === "::" ? [] : [hostname];
    const media = await EmbeddedMedia.start({
      workers: 1,
      log,
      port: 0,
      announce,
      hostname,
      tcp: true,
      fanOut: "native",
      ...options,
    });
    cleanup.push(() => media.close());
    return media;
  };
  const share = async (media: EmbeddedMedia): Promise<SharedPort[]> => {
    const shared = await media.sharePorts();
    if ("unavailable" in shared) throw new Error(shared.unavailable);
    return shared.ports;
  };
  const call = async (media: EmbeddedMedia, roomId = "room", host = "127.0.0.1") => {
    const opened = await OneCall.open(media, roomId, host);
    cleanup.push(() => opened.close());
    return opened;
  };

  test.each(HOSTS)(
    "%s: on %s, calls at %s lose no packet when a newer process starts and when the older one ends",
    async (fanOut, hostname, host) => {
      const options = { hostname, announce: [host], fanOut };
      const older = await start(options);
      const before = await call(older, "room", host);
      before.start();
      const newer = await start({ ...options, succeeds: await share(older) });
      expect(newer.ports).toEqual(older.ports);
      await until(() => older.sharesPorts && newer.sharesPorts);
      const after = await call(newer, "room", host);
      after.start();
      const answered = [before.answered, after.answered];
      for (const { publisher, viewer } of [before, after]) for (const peer of [publisher, viewer]) peer.check();
      await until(() => before.answered >= (answered[0] ?? 0) + 2 && after.answered >= (answered[1] ?? 0) + 2);
      await Bun.sleep(300);
      expect(await before.lost()).toBe(0);
      await older.close();
      await until(() => !newer.sharesPorts);
      const late = await call(newer, "late", host);
      late.start();
      await Bun.sleep(300);
      expect(await late.lost()).toBe(0);
      expect(await after.lost()).toBe(0);
    },
    90_000,
  );

  test("a client of the older process that moves to another address keeps its call", async () => {
    const older = await start();
    const before = await call(older);
    before.start();
    await start({ succeeds: await share(older) });
    await until(() => older.sharesPorts);
    const { checksAnswered } = before.publisher;
    await before.publisher.move();
    await before.viewer.move();
    await until(() => before.publisher.checksAnswered > checksAnswered);
    const arrived = before.viewer.mediaIn;
    await until(() => before.viewer.mediaIn > arrived + 50);
  }, 90_000);

  test("three processes share the port, and when one ends, the calls of the others lose no packet", async () => {
    const first = await start();
    const calls = [await call(first, "first")];
    const second = await start({ succeeds: await share(first) });
    calls.push(await call(second, "second"));
    const refused = await first.sharePorts();
    expect(refused).toEqual({ unavailable: "A newer process uses the media port already." });
    const third = await start({ succeeds: await share(second) });
    calls.push(await call(third, "third"));
    expect(new Set([first, second, third].flatMap(({ ports }) => ports)).size).toBe(1);
    const [, inSecond, inThird] = calls as [OneCall, OneCall, OneCall];
    for (const one of calls) one.start();
    await Bun.sleep(200);
    expect(await (calls[0] as OneCall).lost()).toBe(0);
    await first.close();
    await Bun.sleep(200);
    expect(await inSecond.lost()).toBe(0);
    await second.close();
    await until(() => !third.sharesPorts);
    expect(await inThird.lost()).toBe(0);
  }, 90_000);

  test("when the newer process dies, the older one has the port alone, and another can join it", async () => {
    const older = await start();
    const before = await call(older);
    const shared = await share(older);
    const newer = await start({ succeeds: shared });
    await until(() => older.sharesPorts);
    before.start();
    await newer.close();
    await until(() => !older.sharesPorts);
    expect(await before.lost()).toBe(0);
    const again = await start({ succeeds: shared });
    expect(again.ports).toEqual(older.ports);
    const after = await call(again, "after");
    after.start();
    await Bun.sleep(100);
    expect(await after.lost()).toBe(0);
  }, 90_000);

  test("the port is exclusive again when no newer process comes, and once the older has gone", async () => {
    const older = await start();
    const [port] = older.ports;
    const bind = async () =>
      Bun.udpSocket({ hostname: "127.0.0.1", port, flags: 4 } as { hostname: string; port: number });
    const shared = await share(older);
    await older.keepPorts();
    await expect(bind()).rejects.toThrow("EADDRINUSE");
    await expect(start({ succeeds: shared, port: port ?? 0 })).rejects.toThrow("EADDRINUSE");
    const newer = await start({ succeeds: await share(older) });
    await older.close();
    await until(() => !newer.sharesPorts);
    await expect(bind()).rejects.toThrow("EADDRINUSE");
  }, 90_000);

  test("a process whose predecessor has ended in the meantime binds the port alone", async () => {
    const older = await start();
    const shared = await share(older);
    const { ports } = older;
    await older.close();
    const newer = await start({ succeeds: shared, port: ports[0] ?? 0 });
    expect(newer.ports).toEqual(ports);
    expect(newer.sharesPorts).toBe(false);
  }, 90_000);

  test("more workers than before bind ports of their own, and fewer leave the others to the older process", async () => {
    const older = await start({ workers: 2 });
    const shared = await share(older);
    const fewer = await start({ workers: 1, succeeds: shared });
    expect(fewer.ports).toEqual(older.ports.slice(0, 1));
    await fewer.close();
    const more = await start({ workers: 3, succeeds: await share(older) });
    expect(more.ports.slice(0, 2)).toEqual(older.ports);
    expect(new Set(more.ports).size).toBe(3);
  }, 90_000);

  test("new TCP connections go to the newer process, and those of the older stay with it", async () => {
    const older = await start();
    const [port = 0] = older.ports;
    let closed = 0;
    const connect = () =>
      Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {}, close: () => void closed++ } });
    const before = await connect();
    const newer = await start({ succeeds: await share(older) });
    await until(() => older.sharesPorts);
    const later = await Promise.all(Array.from({ length: 20 }, connect));
    expect(closed).toBe(0);
    await newer.close();
    await until(() => closed === later.length);
    expect(before.readyState).toBe(1);
    await until(async () => (await connect().catch(() => null)) !== null);
    await older.keepPorts();
    await connect();
    const listen = () => Bun.listen({ hostname: "127.0.0.1", port, reusePort: true, socket: { data() {} } } as never);
    expect(listen).toThrow("Failed to listen");
    before.end();
  }, 90_000);
});
