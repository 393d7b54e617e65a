/** The stand-in for a load balancer: the tests of a group expect it to cut connections only when the leader changes. */
import { afterEach, expect, test } from "bun:test";
import { Balancer } from "./group.ts";

type Answer = "ready" | "not ready" | "none";

/** A member that answers as it is told, and whose WebSocket repeats what it receives. */
class Member {
  answer: Answer = "ready";
  /** Called when nobody waits for an unanswered request any more. */
  onGivenUp = () => {};
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, server) => {
      if (server.upgrade(request)) return undefined;
      if (this.answer !== "none") return Response.json({ status: this.answer, role: "leader" });
      const { promise, resolve } = Promise.withResolvers<Response>();
      request.signal.addEventListener("abort", () => {
        this.onGivenUp();
        resolve(new Response());
      });
      return promise;
    },
    websocket: { message: (ws, text) => void ws.send(text) },
  });

  get url(): string {
    return this.#server.url.origin;
  }

  stop(): void {
    void this.#server.stop(true);
  }
}

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function connected(member: Member): Promise<WebSocket> {
  const balancer = new Balancer(() => [member.url]);
  closing.push(
    () => balancer.close(),
    () => member.stop(),
  );
  await balancer.found();
  const socket = new WebSocket(balancer.url.replace("http", "ws"));
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  return socket;
}

const echo = (socket: WebSocket, text: string) =>
  new Promise((resolve, reject) => {
    socket.addEventListener("message", ({ data }) => resolve(data), { once: true });
    socket.addEventListener("close", ({ code }) => reject(new Error(`closed with ${code}`)), { once: true });
    if (socket.readyState !== WebSocket.OPEN) reject(new Error("closed before"));
    socket.send(text);
  });

test("a leader that is too busy to answer keeps its connections", async () => {
  const member = new Member();
  const socket = await connected(member);
  for (let time = 0; time < 2; time++) {
    const givenUp = new Promise<void>((resolve) => {
      member.onGivenUp = resolve;
    });
    member.answer = "none";
    await givenUp;
  }
  expect(await echo(socket, "still here")).toBe("still here");
}, 30_000);

test("a leader that says it is not ready loses its connections", async () => {
  const member = new Member();
  const socket = await connected(member);
  const closed = new Promise<number>((resolve) => {
    socket.addEventListener("close", ({ code }) => resolve(code));
  });
  member.answer = "not ready";
  expect(await closed).toBe(1006);
});
