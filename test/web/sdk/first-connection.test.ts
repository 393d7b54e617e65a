import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { unreachable } from "../../../web/sdk/errors.ts";
import { ReconnectingSocket } from "../../../web/sdk/reconnecting-socket.ts";
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

/** A fake server that refuses the first connections with these close codes and error frames. */
function server(refusals: { code: number; errorFrame?: object }[]) {
  const state = { opened: 0 };
  class Socket extends EventTarget {
    static readonly OPEN = 1;
    readyState = 1;
    constructor() {
      super();
      state.opened += 1;
      const refusal = refusals.shift();
      setTimeout(() => {
        this.dispatchEvent(new Event("open"));
        const { errorFrame } = refusal ?? {};
        const hello = errorFrame ?? (refusal ? null : { type: "hello" });
        setTimeout(() => {
          if (hello) this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(hello) }));
          if (refusal) this.dispatchEvent(new CloseEvent("close", { code: refusal.code }));
        }, 1);
      }, 1);
    }
    send(): void {}
    close(): void {}
  }
  globalThis.WebSocket = Socket as unknown as typeof WebSocket;
  return state;
}

const rateLimited = (retryAfterSeconds: number) => ({
  code: 4429,
  errorFrame: { type: "error", code: "RATE_LIMITED", message: "Too many connections.", retryAfterSeconds },
});

function connecting() {
  const waits: [reason: string, seconds: number][] = [];
  const socket = new ReconnectingSocket("ws://stoa.test", "token", undefined, {
    establish: async (wire) => void (await wire.expect("hello")),
    onConnected: () => {},
    onFrame: () => {},
    onState: () => {},
    onWaiting: ({ reason }, seconds) => waits.push([reason, seconds]),
    onClose: () => ({ kind: "reconnect", afterMs: 0 }),
  });
  let outcome = "waiting";
  socket.start().then(
    () => {
      outcome = "connected";
    },
    (error) => {
      outcome = error.reason;
    },
  );
  return { socket, waits, outcome: () => outcome };
}

async function pass(seconds: number): Promise<void> {
  for (let n = 0; n < seconds * 10; n++) {
    jest.advanceTimersByTime(100);
    for (let m = 0; m < 20; m++) await Promise.resolve();
  }
}

describe("[17] a rate-limited first connection", () => {
  test("waits as long as the server requests, reports the wait, and connects", async () => {
    const state = server([rateLimited(20)]);
    const { socket, waits, outcome } = connecting();
    await pass(19);
    expect([state.opened, waits, outcome()]).toEqual([1, [["rate-limited", 20]], "waiting"]);
    await pass(2);
    expect([state.opened, outcome()]).toEqual([2, "connected"]);
    socket.end("DISCONNECTED", null);
  });

  test("waits at most two and a half minutes in total", async () => {
    const state = server(Array.from({ length: 9 }, () => rateLimited(60)));
    const { waits, outcome } = connecting();
    await pass(200);
    expect([state.opened, waits.length, outcome()]).toEqual([3, 2, "rate-limited"]);
  });

  test("fails at once on any other refusal", async () => {
    server([{ code: 4404 }]);
    const { waits, outcome } = connecting();
    await pass(1);
    expect([waits, outcome()]).toEqual([[], "not-found"]);
  });
});

describe("the error for an unreachable server", () => {
  const from = (hostname: string, url: string) => {
    Object.defineProperty(globalThis, "location", { value: { hostname }, configurable: true });
    try {
      return unreachable(url).code;
    } finally {
      Reflect.deleteProperty(globalThis, "location");
    }
  };

  test.each([
    "ws://localhost:7000/v1/rtc",
    "ws://192.168.1.5/v1/rtc",
    "ws://172.20.0.1",
    "wss://nas.local",
    "ws://[::1]:1",
    "ws://[fd00::1]",
  ])("explains to a public page that %s is a private address", (url) => {
    expect(from("app.example.com", url)).toBe("PRIVATE_ADDRESS");
    expect(from("localhost", url)).toBe("UNREACHABLE");
    expect(from("10.0.0.7", url)).toBe("UNREACHABLE");
  });

  test.each(["wss://rtc.example.com", "ws://172.32.0.1", "ws://8.8.8.8", "wss://localhost.example.com"])(
    "does not call %s a private address",
    (url) => expect(from("app.example.com", url)).toBe("UNREACHABLE"),
  );
});
