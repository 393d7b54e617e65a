import { expect, test } from "bun:test";
import { RequestMarks } from "../../src/edge/request-marks.ts";

const MARK = "x-mark: 1\r\n";

/** What goes on of these bytes, in pieces of so many at a time. */
function passed(text: string, pieceBytes = text.length): string {
  const marks = new RequestMarks(MARK);
  const data = Buffer.from(text, "latin1");
  let out = "";
  for (let at = 0; at < data.length; at += pieceBytes)
    out += marks.pass(data.subarray(at, at + pieceBytes)).toString("latin1");
  return out;
}

const get = "GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n";
const markedGet = `GET /a HTTP/1.1\r\n${MARK}host: localhost\r\n\r\n`;
const post = (headers: string, body: string) => `POST /b HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n${body}`;
const markedPost = (headers: string, body: string) =>
  `POST /b HTTP/1.1\r\n${MARK}host: localhost\r\n${headers}\r\n${body}`;
/** Bodies that look like requests are none. */
const chunked = `25\r\n${get}\n\r\n3;a=b\r\nend\r\n0\r\ntrailer: x\r\n\r\n`;

const conversations: Record<string, [given: string, marked: string]> = {
  "one after another": [get + get + get, markedGet + markedGet + markedGet],
  "a body of a length": [
    post(`Content-Length: ${get.length}\r\n`, get) + get,
    markedPost(`Content-Length: ${get.length}\r\n`, get) + markedGet,
  ],
  "a body in chunks": [
    post("Transfer-Encoding: chunked\r\n", chunked) + get,
    markedPost("Transfer-Encoding: chunked\r\n", chunked) + markedGet,
  ],
  "a body of no bytes, and an empty line between requests": [
    `${post("content-length: 0\r\n", "")}\r\n${get}`,
    `${markedPost("content-length: 0\r\n", "")}\r\n${markedGet}`,
  ],
  "a WebSocket": [
    `${get}GET /s HTTP/1.1\r\nUpgrade: WebSocket\r\n\r\n${get}`,
    `${markedGet}GET /s HTTP/1.1\r\n${MARK}Upgrade: WebSocket\r\n\r\n${get}`,
  ],
  "an upgrade to something else": [
    `GET /s HTTP/1.1\r\nupgrade: h2c\r\n\r\n${get}`,
    `GET /s HTTP/1.1\r\n${MARK}upgrade: h2c\r\n\r\n${markedGet}`,
  ],
};

for (const [name, [given, marked]] of Object.entries(conversations)) {
  test(`every request is marked once, in whatever pieces it comes: ${name}`, () => {
    for (const pieceBytes of [given.length, 1, 2, 3, 7, 16, 64]) expect(passed(given, pieceBytes)).toBe(marked);
  });
}

test("what is no length or no chunk goes on as it is, and nothing after it is marked", () => {
  const unclear = post("content-length: 1, 2\r\n", get);
  expect(passed(unclear)).toBe(markedPost("content-length: 1, 2\r\n", get));
  const wrong = post("transfer-encoding: chunked\r\n", `zz\r\n${get}`);
  expect(passed(wrong, 5)).toBe(markedPost("transfer-encoding: chunked\r\n", `zz\r\n${get}`));
});

test("a line without an end is not kept", () => {
  const endless = `GET /${"a".repeat(200_000)}`;
  expect(passed(endless, 1_000)).toBe(endless);
});
