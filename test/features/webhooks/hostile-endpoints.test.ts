import { afterAll, expect, test } from "bun:test";
import { written } from "../../harness/logged-runtime.ts";
import { testServer } from "../../harness/server.ts";
import { hookedProject } from "./hooked-project.ts";
import { startRawReceiver, startReceiver } from "./receiver.ts";

const server = testServer({ WEBHOOK_MAX_ENDPOINTS: 1000 });
const { runDue } = server.services.webhookDispatcher;
const stops: (() => void)[] = [];
afterAll(async () => {
  for (const stop of stops) stop();
  await server.close();
});

async function rawEndpoint(onRequest: Parameters<typeof startRawReceiver>[0]) {
  const receiver = await startRawReceiver(onRequest);
  stops.push(receiver.close);
  const project = await hookedProject(server);
  const { id } = await project.register(receiver.url);
  await project.announce();
  return { receiver, delivery: async () => (await project.deliveries(id))[0] };
}

for (const [name, bytes, error] of [
  ["garbage instead of HTTP", "how do you do\r\n\r\n", "no HTTP response"],
  ["nothing, then the end", "", "no HTTP response"],
  ["half a header, then the end", "HTTP/1.1 200 OK\r\nContent-Le", "no HTTP response"],
] as const) {
  test(`[6] ${name} is a failed attempt`, async () => {
    const { delivery } = await rawEndpoint((socket) => void socket.end(bytes));
    await runDue();
    expect(await delivery()).toMatchObject({ status: "PENDING", attemptCount: 1, lastError: error });
  });
}

test("[6] an endless response is cut off, and the event counts as delivered", async () => {
  const closed = Promise.withResolvers<void>();
  const { delivery } = await rawEndpoint((socket) => {
    socket.on("close", () => closed.resolve());
    socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n");
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const pour = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on("drain", pour);
    pour();
  });
  await runDue();
  await closed.promise;
  expect(await delivery()).toMatchObject({ status: "DELIVERED", attemptCount: 1 });
});

test("[6] a response of ten megabytes is not waited for", async () => {
  const closed = Promise.withResolvers<number>();
  const { delivery } = await rawEndpoint((socket) => {
    socket.on("close", () => closed.resolve(socket.bytesWritten));
    // The last byte never arrives, so reading the whole body would hang.
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${10_000_001}\r\n\r\n`);
    socket.write("x".repeat(10_000_000));
  });
  await runDue();
  await closed.promise;
  expect((await delivery())?.status).toBe("DELIVERED");
});

test("[6] endpoints that hang delay neither other endpoints nor, after their timeout, each other", async () => {
  const { webhookDispatcher } = server.services;
  const project = await hookedProject(server);
  const hanging = startReceiver(() => new Promise<Response>(() => {}));
  const healthy = startReceiver();
  stops.push(hanging.close, healthy.close);
  const hangingIds: string[] = [];
  for (let n = 0; n < 50; n++) hangingIds.push((await project.register(hanging.url)).id);
  const { id } = await project.register(healthy.url);

  webhookDispatcher.start();
  for (let n = 0; n < 40; n++) await project.announce(`viewer-${n}`);
  await hanging.arrived(50);
  // The clock has not moved, so none of the hanging requests has timed out.
  await healthy.arrived(40);
  expect(new Set(healthy.received.map(({ event }) => event.data.identity)).size).toBe(40);
  expect(hanging.received).toHaveLength(50);
  while ((await project.deliveries(id)).some(({ status }) => status !== "DELIVERED")) await Bun.sleep(5);

  server.clock.advance(5000);
  await hanging.arrived(100);
  // The next request starts when the one before has ended, while its outcome is written.
  await written();
  for (const hangingId of hangingIds) {
    const failed = (await project.deliveries(hangingId)).filter(({ attemptCount }) => attemptCount === 1);
    expect(failed.map(({ lastError }) => lastError)).toEqual(["no HTTP response"]);
  }
  // Stopping aborts running attempts, which do not count.
  await webhookDispatcher.stop(server.clock.now());
  for (const hangingId of hangingIds.slice(0, 3)) {
    const attempts = (await project.deliveries(hangingId)).map(({ attemptCount }) => attemptCount);
    expect(attempts.filter((count) => count > 0)).toEqual([1]);
  }
});
