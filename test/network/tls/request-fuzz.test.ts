import { afterAll, expect, test } from "bun:test";
import { once } from "node:events";
import { connect } from "node:net";
import fc from "fast-check";
import { readByLlhttp } from "./llhttp.ts";
import { cutAt, pass } from "./pass.ts";
import { requestBytes } from "./request-bytes.ts";

/** `FRAMING_RUNS=100000 FRAMING_SEED=7 bin/test request-fuzz` looks for longer. */
const RUNS = Number(process.env.FRAMING_RUNS ?? 4_000);
const SEED = Number(process.env.FRAMING_SEED ?? 20_260_401);
const SERVER_RUNS = Math.ceil(RUNS / 20);

const NAME = "x-mark";
const MARK = `${NAME}: put in by the edge\r\n`;
/** Shows where the parser believes that the last request ended. */
const LAST = "GET /last HTTP/1.1\r\nhost: last\r\n\r\n";
const MARKED_LAST = LAST.replace("host:", `${MARK}host:`);

const WITHIN_METHOD = new RegExp(`^[A-Z-]* [^ ]+ HTTP/1\\.[01]\r\n${NAME}`);

const cuts = fc.array(fc.nat(10_000), { maxLength: 12 });

const count = (text: string, part: string) => text.split(part).length - 1;

test("llhttp finds the same request boundaries in every accepted request", () => {
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(requestBytes(2), cuts, (bytes, places) => {
      const { text, marks } = pass(MARK, cutAt(bytes + LAST, places));
      const { requests: all, error } = readByLlhttp(Buffer.from(text, "latin1"));
      // A length may end in the middle of a method. What is left is a method too, but llhttp has a list of those it knows.
      const isForeign = error?.code === "HPE_INVALID_METHOD" && WITHIN_METHOD.test(text.slice(error.at));
      const marked = count(isForeign ? text.slice(0, error.at) : text, MARK);
      // After a request for a WebSocket no request is marked, and the server refuses unmarked ones.
      const requests = marks.isDone ? all.slice(0, marked) : all;
      // No parser sees a request without a mark, and there is no mark anywhere else.
      expect(requests.length).toBe(marked);
      for (const { headers } of requests) expect(headers.filter((name) => name === NAME)).toHaveLength(1);
      for (const { body } of requests) expect(body).not.toContain(NAME);
      if (marks.refusal) {
        refused++;
        return;
      }
      accepted++;
      expect(bytes + LAST).toStartWith(text.replaceAll(MARK, ""));
      if (marks.isDone || isForeign) return;
      expect(error).toBeNull();
      const { url, isWhole } = requests.at(-1) ?? {};
      expect(url === "/last" && isWhole).toBe(text.endsWith(MARKED_LAST));
    }),
    { numRuns: RUNS, seed: SEED },
  );
  // Some of the generated requests are odd, and not all of them.
  expect(Math.min(accepted, refused)).toBeGreaterThan(RUNS / 10);
});

test("valid requests are accepted in every spelling and split", () => {
  fc.assert(
    fc.property(requestBytes(0), cuts, (bytes, places) => {
      const { text, marks } = pass(MARK, cutAt(bytes + LAST, places));
      expect(marks.refusal).toBeNull();
      expect(text).toEndWith(MARKED_LAST);
      expect(text.replaceAll(MARK, "")).toBe(bytes + LAST);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});

type Served = { marks: number; body: string };
let served: Promise<Served>[] = [];
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch(request) {
    const marks = count(`${request.headers.get(NAME) ?? ""}`, MARK.slice(NAME.length + 2).trim());
    served.push(
      request.arrayBuffer().then(
        (body) => ({ marks, body: Buffer.from(body).toString("latin1") }),
        () => ({ marks, body: "" }),
      ),
    );
    return new Response();
  },
});
afterAll(() => server.stop(true));

async function serve(text: string): Promise<Served[]> {
  served = [];
  const socket = connect(server.port ?? 0, "127.0.0.1");
  socket.on("error", () => {});
  socket.resume();
  socket.end(text, "latin1");
  await once(socket, "close");
  return await Promise.all(served);
}

test("the server sees the inserted header in every request, and nowhere else", async () => {
  let seen = 0;
  await fc.assert(
    fc.asyncProperty(requestBytes(2), cuts, async (bytes, places) => {
      const { text, marks } = pass(MARK, cutAt(bytes + LAST, places));
      fc.pre(!marks.isDone);
      const { requests } = readByLlhttp(Buffer.from(text, "latin1"));
      const asked = await serve(text);
      seen += asked.length;
      for (const { marks } of asked) expect(marks).toBe(1);
      // The server reads no body of a GET, and none that is cut short.
      for (const [index, { body }] of asked.entries()) if (body !== "") expect(body).toBe(requests[index]?.body ?? "");
      expect(asked.length).toBeLessThanOrEqual(requests.length);
    }),
    { numRuns: SERVER_RUNS, seed: SEED },
  );
  expect(seen).toBeGreaterThan(SERVER_RUNS);
});
