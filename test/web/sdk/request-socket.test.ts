import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import type { ChatProtocol } from "../../../web/sdk/protocol.ts";
import { ReconnectingSocket } from "../../../web/sdk/reconnecting-socket.ts";
import { RequestSocket } from "../../../web/sdk/request-socket.ts";
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

/** A fake server on a network that can fall silent: sockets stay open, but nothing arrives. */
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
  const socket = new ReconnectingSocket("ws://stoa.test", "token", undefined, {
    establish: async () => {},
    onConnected: () => {},
    onFrame: () => {},
    onWaiting: () => {},
    onState: (state) => states.push(state),
    onClose: () => ({ kind: "reconnect", afterMs: 0 }),
  });
  const starting = socket.start();
  await pass(1);
  await starting;
  return { socket, states };
}

describe("[3] a dead connection", () => {
  test("is detected within fifteen seconds by the heartbeat", async () => {
    const state = network();
    const { socket, states } = await connected();
    state.silent = true;
    await pass(15);
    expect(states).toEqual(["CONNECTED", "RECONNECTING"]);
    expect(state.closed[0]).toBe(4000);
    socket.end("DISCONNECTED", null);
  });

  test.each([
    ["another network", () => page.dispatch("online")],
    ["a laptop that was opened again", () => page.show(true)],
  ])("is detected three seconds after %s, and a live one is kept", async (_, happens) => {
    const state = network();
    const { socket, states } = await connected();
    happens();
    await pass(4);
    expect(states).toEqual(["CONNECTED"]);
    state.silent = true;
    happens();
    await pass(2.8);
    expect(states).toEqual(["CONNECTED"]);
    await pass(0.4);
    expect(states).toEqual(["CONNECTED", "RECONNECTING"]);
    socket.end("DISCONNECTED", null);
  });

  test("[6] leaves no timer, listener or further attempt once it is ended", async () => {
    const state = network();
    const { socket } = await connected();
    state.silent = true;
    await pass(20);
    socket.end("DISCONNECTED", null);
    await pass(1);
    const tries = state.opened;
    await pass(60);
    expect([state.opened, page.listenerCount(), jest.getTimerCount()]).toEqual([tries, 0, 0]);
  });
});

test("[3] a tab whose timers were delayed for a minute keeps its connection", async () => {
  const state = network();
  const { socket, states } = await connected();
  // A frozen tab runs no timers while time passes.
  jest.setSystemTime(Date.now() + 60_000);
  await pass(30);
  expect(states).toEqual(["CONNECTED"]);
  expect(state.opened).toBe(1);
  socket.end("DISCONNECTED", null);
});

test("[6] a greeting that arrives together with the open event is not missed", async () => {
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
  const wire = RequestSocket.open<ChatProtocol>({
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

test("a second greeting on an open socket establishes the session again and repeats pending calls", async () => {
  const sentTypes: string[] = [];
  let opened: Staying | null = null;
  class Staying extends EventTarget {
    readonly OPEN = 1;
    static readonly OPEN = 1;
    readyState = 1;
    constructor(
      _url: string,
      readonly protocols: string[],
    ) {
      super();
      opened = this;
      setTimeout(() => {
        this.dispatchEvent(new Event("open"));
        this.push({ type: "connected", userId: "one" });
      }, 1);
    }
    send(text: string): void {
      sentTypes.push(JSON.parse(text).type);
    }
    push(frame: object): void {
      this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
    }
    close(): void {}
  }
  const greeted: string[] = [];
  const states: string[] = [];
  const socket = new ReconnectingSocket<ChatProtocol>("ws://stoa.test", "token", undefined, {
    WebSocket: Staying as unknown as typeof WebSocket,
    greeting: "connected",
    establish: async (wire) => void greeted.push((await wire.expect("connected")).userId),
    onConnected: () => {},
    onFrame: () => {},
    onWaiting: () => {},
    onState: (state) => states.push(state),
    onClose: () => ({ kind: "reconnect", afterMs: 0 }),
  });
  const starting = socket.start();
  await pass(1);
  await starting;
  const open = opened as unknown as Staying;
  expect(open.protocols).toEqual(["token.token", "stoa.again"]);
  const pendingCall = socket.call("message.delete", { messageId: "m" });
  await pass(0.1);
  for (const userId of ["two", "three"]) {
    open.push({ type: "connected", userId });
    await pass(0.1);
  }
  open.push({ type: "ack", id: "3" });
  await pendingCall;
  expect(greeted).toEqual(["one", "two", "three"]);
  expect(sentTypes.filter((type) => type === "message.delete")).toHaveLength(3);
  expect(states).toEqual(["CONNECTED", "RECONNECTING", "CONNECTED", "RECONNECTING", "CONNECTED"]);
  expect(open).toBe(opened as unknown as Staying);
  socket.end("DISCONNECTED", null);
});
