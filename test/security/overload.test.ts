import { expect, test } from "bun:test";
import { createBodyReader, MAX_BODY_BYTES } from "../../src/kernel/http/body.ts";
import { fakeClock } from "../harness/clock.ts";

const KIB = 1024;

/** A request whose body arrives when the test says so. */
function slow(declared?: number) {
  let feed: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      feed = controller;
    },
  });
  const headers = new Headers(declared === undefined ? [] : [["content-length", String(declared)]]);
  const request = new Request("http://localhost/v1/rooms", { method: "POST", body, headers });
  return {
    request,
    send: (bytes: number) => feed?.enqueue(new Uint8Array(bytes).fill(32)),
    end: () => feed?.close(),
  };
}

const turn = () => new Promise((done) => setImmediate(done));

test("[8] all unfinished large bodies together use limited memory, while small bodies are still read", async () => {
  const clock = fakeClock();
  const read = createBodyReader(clock, 100 * KIB);
  const stuck = slow(MAX_BODY_BYTES);
  const reading = read(stuck.request);
  stuck.send(90 * KIB);
  await turn();

  const second = slow();
  const refused = read(second.request);
  second.send(20 * KIB);
  await expect(refused).rejects.toMatchObject({ code: "SVC_OVERLOADED" });

  const small = slow();
  const taken = read(small.request);
  small.send(16 * KIB);
  small.end();
  expect(await taken).toBe(" ".repeat(16 * KIB));

  // Their time is over, so their memory is free again.
  clock.advance(30_000);
  await expect(reading).rejects.toMatchObject({ code: "SVC_VALIDATION_FAILED" });
  const third = slow();
  const read3 = read(third.request);
  third.send(90 * KIB);
  third.end();
  expect(await read3).toBe(" ".repeat(90 * KIB));
  expect(clock.pending()).toBe(0);
});

test("[1] a client that disconnects in the middle of a body frees its share of the memory", async () => {
  const clock = fakeClock();
  const read = createBodyReader(clock, 100 * KIB);
  for (let i = 0; i < 5; i++) {
    const aborted = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new Uint8Array(90 * KIB));
        setImmediate(() => controller.error(new Error("gone")));
      },
    });
    const request = new Request("http://localhost/v1/rooms", { method: "POST", body: aborted });
    await expect(read(request)).rejects.toMatchObject({ code: "SVC_VALIDATION_FAILED" });
  }
  expect(clock.pending()).toBe(0);
});
