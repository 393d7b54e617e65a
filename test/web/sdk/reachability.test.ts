import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { ReconnectingSocket } from "../../../web/sdk/reconnecting-socket.ts";
import { openPage, type Page } from "./page.ts";

/** `gone` drops all packets, `refused` fails everything at once, `forbidden` fails only requests, as a page's policy does. */
type Network = "fine" | "gone" | "refused" | "forbidden";

let page: Page;
let network: Network;
let sockets: Socket[];
let requests: { url: string; init: RequestInit }[];
const realFetch = globalThis.fetch;

class Socket extends EventTarget {
  readyState = 0;
  constructor(readonly url: string) {
    super();
    sockets.push(this);
    setTimeout(() => {
      if (network === "refused") this.#end(1006);
      if (network === "gone" || network === "refused") return;
      this.readyState = 1;
      this.dispatchEvent(new Event("open"));
    }, 20);
  }
  send(): void {}
  close(code = 1000): void {
    this.#end(code);
  }
  /** Closes the socket from the server's or the network's side. */
  lose(code: number): void {
    this.#end(code);
  }
  #end(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    setTimeout(() => this.dispatchEvent(new CloseEvent("close", { code })), 0);
  }
}

beforeEach(() => {
  jest.useFakeTimers();
  page = openPage();
  // This property identifies Firefox.
  Object.assign(globalThis, { mozInnerScreenX: 0 });
  network = "fine";
  sockets = [];
  requests = [];
  globalThis.WebSocket = Socket as unknown as typeof WebSocket;
  globalThis.fetch = ((url: string, init: RequestInit) => {
    requests.push({ url, init });
    return new Promise<Response>((resolve, reject) => {
      init.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      setTimeout(() => {
        if (network === "fine") resolve(new Response(null, { status: 404 }));
        else if (network !== "gone") reject(new TypeError("failed"));
      }, 20);
    });
  }) as typeof fetch;
});
afterEach(() => {
  Reflect.deleteProperty(globalThis, "mozInnerScreenX");
  jest.useRealTimers();
  page.close();
  globalThis.fetch = realFetch;
});

async function pass(seconds: number): Promise<void> {
  for (let n = 0; n < seconds * 20; n++) {
    jest.advanceTimersByTime(50);
    for (let m = 0; m < 20; m++) await Promise.resolve();
  }
}

async function connected(endpoint = "wss://stoa.test:7000/v1/rtc?room=1"): Promise<ReconnectingSocket<never>> {
  const socket = new ReconnectingSocket<never>(endpoint, "token", undefined, {
    establish: async () => {},
    onConnected: () => {},
    onFrame: () => {},
    onState: () => {},
    onWaiting: () => {},
    onClose: () => ({ kind: "reconnect", afterMs: 0 }),
  });
  const started = socket.start();
  await pass(0.2);
  await started;
  return socket;
}

describe("[3] reconnecting in Firefox", () => {
  test("the first connection makes no request", async () => {
    const socket = await connected();
    expect([sockets.length, requests.length, socket.state]).toEqual([1, 0, "CONNECTED"]);
    socket.end("DISCONNECTED", null);
  });

  test.each(["gone", "refused"] as const)(
    "no WebSocket is opened while the network is %s; HTTP requests probe whether the server is reachable",
    async (how) => {
      const socket = await connected();
      network = how;
      sockets[0]?.lose(1006);
      await pass(11);
      expect([sockets.length, socket.state]).toEqual([1, "RECONNECTING"]);
      expect(requests.length).toBeWithin(3, 30);
      network = "fine";
      await pass(4.5);
      expect([sockets.length, socket.state]).toEqual([2, "CONNECTED"]);
      socket.end("DISCONNECTED", null);
    },
  );

  test("the request goes to the server's origin without credentials and needs no CORS", async () => {
    const socket = await connected();
    sockets[0]?.lose(1006);
    await pass(1);
    expect(requests.map(({ url }) => url)).toEqual(["https://stoa.test:7000/healthz"]);
    expect(requests[0]?.init).toMatchObject({ mode: "no-cors", credentials: "omit", cache: "no-store" });
    expect(socket.state).toBe("CONNECTED");
    socket.end("DISCONNECTED", null);
  });

  test("no socket fails during a long outage once a request has succeeded", async () => {
    const socket = await connected();
    sockets[0]?.lose(1006);
    await pass(1);
    network = "gone";
    sockets[1]?.lose(1006);
    await pass(40);
    expect(sockets.length).toBe(2);
    page.dispatch("online");
    network = "fine";
    await pass(4.5);
    expect([sockets.length, socket.state]).toEqual([3, "CONNECTED"]);
    socket.end("DISCONNECTED", null);
  });

  test("the online event triggers the next request at once", async () => {
    const socket = await connected();
    network = "refused";
    sockets[0]?.lose(1006);
    await pass(8);
    network = "fine";
    page.dispatch("online");
    await pass(0.2);
    expect(socket.state).toBe("CONNECTED");
    socket.end("DISCONNECTED", null);
  });

  test("a page that may not make requests reconnects anyway and makes no more requests", async () => {
    const socket = await connected();
    network = "forbidden";
    sockets[0]?.lose(1006);
    await pass(15);
    expect([sockets.length, socket.state]).toEqual([2, "CONNECTED"]);
    requests.length = 0;
    sockets[1]?.lose(1006);
    await pass(0.5);
    expect([sockets.length, requests.length, socket.state]).toEqual([3, 0, "CONNECTED"]);
    socket.end("DISCONNECTED", null);
  });

  test("no request is made after the server itself has closed the socket", async () => {
    const socket = await connected();
    sockets[0]?.lose(4500);
    await pass(0.2);
    expect([sockets.length, requests.length, socket.state]).toEqual([2, 0, "CONNECTED"]);
    socket.end("DISCONNECTED", null);
  });

  test("other browsers open the next socket at once", async () => {
    Reflect.deleteProperty(globalThis, "mozInnerScreenX");
    const socket = await connected();
    sockets[0]?.lose(1006);
    await pass(0.2);
    expect([sockets.length, requests.length, socket.state]).toEqual([2, 0, "CONNECTED"]);
    socket.end("DISCONNECTED", null);
  });

  test("no request is made after the end", async () => {
    const socket = await connected();
    network = "gone";
    sockets[0]?.lose(1006);
    await pass(5);
    socket.end("DISCONNECTED", null);
    await pass(1);
    requests.length = 0;
    await pass(30);
    expect([requests.length, sockets.length, page.listenerCount()]).toEqual([0, 1, 0]);
  });
});
