import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { Link } from "../../../web/sdk/link.ts";
import { openPage, type Page } from "./page.ts";

/** `gone`: packets vanish; `refused`: everything fails at once; `forbidden`: only requests do, as under a page's own policy. */
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
  /** By the server, or by the network. */
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
  // As in Firefox.
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

async function connected(endpoint = "wss://stoa.test:7000/v1/rtc?room=1"): Promise<Link<never>> {
  const link = new Link<never>(endpoint, "token", undefined, {
    establish: async () => {},
    onConnected: () => {},
    onFrame: () => {},
    onState: () => {},
    onWaiting: () => {},
    judge: () => ({ kind: "again", afterMs: 0 }),
  });
  const started = link.start();
  await pass(0.2);
  await started;
  return link;
}

describe("[3] a socket that was lost with its network", () => {
  test("a first connection asks nobody before it", async () => {
    const link = await connected();
    expect([sockets.length, requests.length, link.state]).toEqual([1, 0, "CONNECTED"]);
    link.end("DISCONNECTED", null);
  });

  test.each(["gone", "refused"] as const)(
    "is not opened again while the network is %s: a request finds out",
    async (how) => {
      const link = await connected();
      network = how;
      sockets[0]?.lose(1006);
      await pass(11);
      expect([sockets.length, link.state]).toEqual([1, "RECONNECTING"]);
      expect(requests.length).toBeWithin(3, 30);
      network = "fine";
      await pass(4.5);
      expect([sockets.length, link.state]).toEqual([2, "CONNECTED"]);
      link.end("DISCONNECTED", null);
    },
  );

  test("the request goes to the server's own origin, carries nothing, and may be made by any page", async () => {
    const link = await connected();
    sockets[0]?.lose(1006);
    await pass(1);
    expect(requests.map(({ url }) => url)).toEqual(["https://stoa.test:7000/healthz"]);
    expect(requests[0]?.init).toMatchObject({ mode: "no-cors", credentials: "omit", cache: "no-store" });
    expect(link.state).toBe("CONNECTED");
    link.end("DISCONNECTED", null);
  });

  test("after a long cut no socket has failed, once requests are known to come through", async () => {
    const link = await connected();
    sockets[0]?.lose(1006);
    await pass(1);
    network = "gone";
    sockets[1]?.lose(1006);
    await pass(40);
    expect(sockets.length).toBe(2);
    page.happens("online");
    network = "fine";
    await pass(4.5);
    expect([sockets.length, link.state]).toEqual([3, "CONNECTED"]);
    link.end("DISCONNECTED", null);
  });

  test("the network says that it is back: the next request is made at once", async () => {
    const link = await connected();
    network = "refused";
    sockets[0]?.lose(1006);
    await pass(8);
    network = "fine";
    page.happens("online");
    await pass(0.2);
    expect(link.state).toBe("CONNECTED");
    link.end("DISCONNECTED", null);
  });

  test("a page that may make no requests comes back all the same, and asks no more after that", async () => {
    const link = await connected();
    network = "forbidden";
    sockets[0]?.lose(1006);
    await pass(15);
    expect([sockets.length, link.state]).toEqual([2, "CONNECTED"]);
    requests.length = 0;
    sockets[1]?.lose(1006);
    await pass(0.5);
    expect([sockets.length, requests.length, link.state]).toEqual([3, 0, "CONNECTED"]);
    link.end("DISCONNECTED", null);
  });

  test("a server that has closed the socket itself is in reach", async () => {
    const link = await connected();
    sockets[0]?.lose(4500);
    await pass(0.2);
    expect([sockets.length, requests.length, link.state]).toEqual([2, 0, "CONNECTED"]);
    link.end("DISCONNECTED", null);
  });

  test("other browsers hold no sockets back: theirs is opened again at once", async () => {
    Reflect.deleteProperty(globalThis, "mozInnerScreenX");
    const link = await connected();
    sockets[0]?.lose(1006);
    await pass(0.2);
    expect([sockets.length, requests.length, link.state]).toEqual([2, 0, "CONNECTED"]);
    link.end("DISCONNECTED", null);
  });

  test("nothing is asked any more after the end", async () => {
    const link = await connected();
    network = "gone";
    sockets[0]?.lose(1006);
    await pass(5);
    link.end("DISCONNECTED", null);
    await pass(1);
    requests.length = 0;
    await pass(30);
    expect([requests.length, sockets.length, page.left()]).toEqual([0, 1, 0]);
  });
});
