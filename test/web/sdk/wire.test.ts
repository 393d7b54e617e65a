import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { ChatDialect } from "../../../web/sdk/dialect.ts";
import { Link } from "../../../web/sdk/link.ts";
import { Wire } from "../../../web/sdk/wire.ts";
import { openPage, type Page } from "./page.ts";

let page: Page;
beforeEach(() => {
  jest.useFakeTimers();
  page = openPage();
});
afterEach(() => {
  jest.useRealTimers();
  page.close();
});

/** A server behind a network that can fall silent: sockets stay open, and nothing passes. */
function network() {
  const state = { silent: false, opened: 0, closed: [] as number[] };
  class Socket extends EventTarget {
    readyState = 1;
    constructor() {
      super();
      state.opened += 1;
      setTimeout(() => {
        if (!state.silent) this.dispatchEvent(new Event("open"));
      }, 1);
    }
    send(text: string): void {
      const { type } = JSON.parse(text);
      if (type !== "ping" || state.silent) return;
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify({ type: "pong" }) }));
    }
    close(code: number): void {
      state.closed.push(code);
    }
  }
  globalThis.WebSocket = Socket as unknown as typeof WebSocket;
  return state;
}

async function pass(seconds: number): Promise<void> {
  for (let n = 0; n < seconds * 10; n++) {
    jest.advanceTimersByTime(100);
    for (let m = 0; m < 10; m++) await Promise.resolve();
  }
}

async function connected() {
  const states: string[] = [];
  const link = new Link("ws://stoa.test", "token", undefined, {
    establish: async () => {},
    onConnected: () => {},
    onFrame: () => {},
    onWaiting: () => {},
    onState: (state) => states.push(state),
    judge: () => ({ kind: "again", afterMs: 0 }),
  });
  const starting = link.start();
  await pass(1);
  await starting;
  return { link, states };
}

describe("[3] a connection that leads nowhere any more", () => {
  test("is noticed within a quarter of a minute when nothing else tells of it", async () => {
    const state = network();
    const { link, states } = await connected();
    state.silent = true;
    await pass(15);
    expect(states).toEqual(["CONNECTED", "RECONNECTING"]);
    expect(state.closed[0]).toBe(4000);
    link.end("DISCONNECTED", null);
  });

  test.each([
    ["another network", () => page.happens("online")],
    ["a laptop that was opened again", () => page.show(true)],
  ])("is noticed in three seconds after %s, and not where the server still answers", async (_, happens) => {
    const state = network();
    const { link, states } = await connected();
    happens();
    await pass(4);
    expect(states).toEqual(["CONNECTED"]);
    state.silent = true;
    happens();
    await pass(2.8);
    expect(states).toEqual(["CONNECTED"]);
    await pass(0.4);
    expect(states).toEqual(["CONNECTED", "RECONNECTING"]);
    link.end("DISCONNECTED", null);
  });

  test("[6] is over for good once it is closed: no timer, no listener, no further try", async () => {
    const state = network();
    const { link } = await connected();
    state.silent = true;
    await pass(20);
    link.end("DISCONNECTED", null);
    await pass(1);
    const tries = state.opened;
    await pass(60);
    expect([state.opened, page.left(), jest.getTimerCount()]).toEqual([tries, 0, 0]);
  });
});

test("[3] a tab whose timers were held back for a minute keeps its connection", async () => {
  const state = network();
  const { link, states } = await connected();
  // Frozen: no timer runs, and the clock goes on.
  jest.setSystemTime(Date.now() + 60_000);
  await pass(30);
  expect(states).toEqual(["CONNECTED"]);
  expect(state.opened).toBe(1);
  link.end("DISCONNECTED", null);
});

test("[6] a greeting that comes together with the socket is not missed", async () => {
  class Prompt extends EventTarget {
    readyState = 1;
    constructor() {
      super();
      setTimeout(() => {
        this.dispatchEvent(new Event("open"));
        this.dispatchEvent(
          new MessageEvent("message", { data: JSON.stringify({ type: "connected", userId: "anna" }) }),
        );
      }, 1);
    }
    send(): void {}
    close(): void {}
  }
  const wire = Wire.open<ChatDialect>({
    url: "ws://stoa.test",
    token: "token",
    signal: new AbortController().signal,
    WebSocket: Prompt as unknown as typeof WebSocket,
    onFrame: () => {},
    onClose: () => {},
  });
  jest.advanceTimersByTime(1);
  expect((await (await wire).expect("connected")).userId).toBe("anna");
});

test("a second greeting on an open socket is another server: what was asked is asked again, and said again who we are", async () => {
  const said: string[] = [];
  let socket: Staying | null = null;
  class Staying extends EventTarget {
    readonly OPEN = 1;
    static readonly OPEN = 1;
    readyState = 1;
    constructor(
      _url: string,
      readonly protocols: string[],
    ) {
      super();
      socket = this;
      setTimeout(() => {
        this.dispatchEvent(new Event("open"));
        this.say({ type: "connected", userId: "one" });
      }, 1);
    }
    send(text: string): void {
      said.push(JSON.parse(text).type);
    }
    say(frame: object): void {
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
    }
    close(): void {}
  }
  const greeted: string[] = [];
  const states: string[] = [];
  const link = new Link<ChatDialect>("ws://stoa.test", "token", undefined, {
    WebSocket: Staying as unknown as typeof WebSocket,
    greeting: "connected",
    establish: async (wire) => void greeted.push((await wire.expect("connected")).userId),
    onConnected: () => {},
    onFrame: () => {},
    onWaiting: () => {},
    onState: (state) => states.push(state),
    judge: () => ({ kind: "again", afterMs: 0 }),
  });
  const starting = link.start();
  await pass(1);
  await starting;
  const open = socket as unknown as Staying;
  expect(open.protocols).toEqual(["token.token", "stoa.again"]);
  const asked = link.call("message.delete", { messageId: "m" });
  await pass(0.1);
  for (const userId of ["two", "three"]) {
    open.say({ type: "connected", userId });
    await pass(0.1);
  }
  open.say({ type: "ack", id: "3" });
  await asked;
  expect(greeted).toEqual(["one", "two", "three"]);
  expect(said.filter((type) => type === "message.delete")).toHaveLength(3);
  expect(states).toEqual(["CONNECTED", "RECONNECTING", "CONNECTED", "RECONNECTING", "CONNECTED"]);
  expect(open).toBe(socket as unknown as Staying);
  link.end("DISCONNECTED", null);
});
