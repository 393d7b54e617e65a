import { expect, test } from "bun:test";
import { HeaderInserter, type RefusalStatus } from "../../../src/network/tls/header-inserter.ts";
import { cutEvery, pass } from "./pass.ts";

const MARK = "x-mark: 1\r\n";

/** The bytes that are forwarded when the input arrives in pieces of this size. */
function read(given: string, pieceBytes = given.length): { text: string; refusal: RefusalStatus | null } {
  const { text, marks } = pass(MARK, cutEvery(given, pieceBytes));
  return { text, refusal: marks.refusal };
}

const get = "GET /a HTTP/1.1\r\nhost: localhost\r\n\r\n";
const markedGet = `GET /a HTTP/1.1\r\n${MARK}host: localhost\r\n\r\n`;
const post = (headers: string, body: string) => `POST /b HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n${body}`;
const markedPost = (headers: string, body: string) =>
  `POST /b HTTP/1.1\r\n${MARK}host: localhost\r\n${headers}\r\n${body}`;
/** A body that looks like a request is forwarded as a body. */
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
    for (const pieceBytes of [given.length, 1, 2, 3, 7, 16, 64]) {
      expect(read(given, pieceBytes)).toEqual({ text: marked, refusal: null });
    }
  });
}

const chunkedPost = (body: string) => post("transfer-encoding: chunked\r\n", body);
const long = (bytes: number) => "a".repeat(bytes);

/** Requests that two parsers could interpret differently. */
const refused: Record<string, string> = {
  "a negative chunk": chunkedPost(`-6\r\n${get}`),
  "a negative chunk that leads to where it began": chunkedPost("5\r\nhello\r\n-4\r\n"),
  "a chunk with a sign": chunkedPost(`+5\r\nhello\r\n0\r\n\r\n`),
  "a chunk with a prefix": chunkedPost("0x5\r\nhello\r\n0\r\n\r\n"),
  "a chunk of no number": chunkedPost(`zz\r\n${get}`),
  "a chunk without a size": chunkedPost(`\r\n${get}`),
  "a chunk that is partly a number": chunkedPost("5h\r\nhello\r\n0\r\n\r\n"),
  "a chunk with spaces": chunkedPost(" 5 \r\nhello\r\n0\r\n\r\n"),
  "a chunk past every number": chunkedPost(`${"f".repeat(16)}\r\nhello`),
  "a chunk of seventeen digits": chunkedPost(`${"0".repeat(16)}5\r\nhello\r\n0\r\n\r\n`),
  "an extension without a name": chunkedPost("5;\r\nhello\r\n0\r\n\r\n"),
  "an extension with a bare line feed": chunkedPost("5;a\nb\r\nhello\r\n0\r\n\r\n"),
  "an extension without an end": chunkedPost(`5;${long(2_000)}`),
  "a chunk's size before a bare line feed": chunkedPost("5\nhello\r\n0\r\n\r\n"),
  "a chunk longer than its size": chunkedPost("5\r\nhello!!0\r\n\r\n"),
  "a chunk before a bare line feed": chunkedPost("5\r\nhello\n0\r\n\r\n"),
  "a length among the trailers": chunkedPost("0\r\ncontent-length: 5\r\n\r\n"),
  "a request in place of trailers": chunkedPost(`0\r\n${get}`),
  "a bare line feed among the trailers": chunkedPost(`0\r\nx: y\n\r\n${get}`),
  "trailers without an end": chunkedPost(`0\r\n${`x: ${long(500)}\r\n`.repeat(10)}`),
  "two lengths": post("content-length: 5\r\ncontent-length: 6\r\n", "hello"),
  "the same length twice": post("content-length: 5\r\nContent-Length: 5\r\n", "hello"),
  "a list of lengths": post("content-length: 5, 5\r\n", "hello"),
  "a negative length": post("content-length: -5\r\n", "hello"),
  "a length with a sign": post("content-length: +5\r\n", "hello"),
  "a length with an exponent": post("content-length: 1e1\r\n", "hello"),
  "a length after a space of another kind": post("content-length: \xa05\r\n", "hello"),
  "a length past every number": post(`content-length: ${"9".repeat(16)}\r\n`, "hello"),
  "no length": post("content-length:\r\n", ""),
  "a length and chunks": post("content-length: 5\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
  "chunks twice": post("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
  "another coding": post("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n"),
  "the coding `identity`": post("transfer-encoding: identity\r\n", get),
  "chunks in HTTP/1.0": chunkedPost("0\r\n\r\n").replace("HTTP/1.1", "HTTP/1.0"),
  "a body behind a request for a WebSocket": post("upgrade: websocket\r\ncontent-length: 5\r\n", "hello"),
  "two upgrades": post("upgrade: websocket\r\nupgrade: h2c\r\n", ""),
  "a space before the colon": post("content-length : 5\r\n", "hello"),
  "a folded header": post("x: a\r\n content-length: 5\r\n", "hello"),
  "a header without a colon": post("content-length 5\r\n", "hello"),
  "a bare carriage return": post("x: a\rcontent-length: 5\r\n", "hello"),
  "a bare line feed": post("x: a\ncontent-length: 5\r\n", "hello"),
  "line feeds alone": get.replaceAll("\r", ""),
  "an empty line of a line feed": `\n${get}`,
  "a zero byte": post("x: a\0b\r\n", ""),
  "an invalid request line": "hello\r\n\r\n",
  "another version": get.replace("HTTP/1.1", "HTTP/2.0"),
};

for (const [name, given] of Object.entries(refused)) {
  test(`the request is refused and nothing after it is forwarded, in whatever pieces it comes: ${name}`, () => {
    for (const pieceBytes of [given.length, 1, 2, 3, 7, 16, 64]) {
      const { text, refusal } = read(get + given + get, pieceBytes);
      expect(refusal).toBe(400);
      // At most the bytes before the refused part are forwarded.
      expect(text).toStartWith(markedGet);
      expect(markedGet + given.replace("\r\n", `\r\n${MARK}`)).toStartWith(text);
    }
  });
}

test("a bare line feed is refused at once, even at the end of the bytes", () => {
  for (const given of ["\n", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nhost: a\n", `${chunkedPost("0\r\n")}x: y\n`]) {
    for (const pieceBytes of [given.length, 1, 2, 3]) expect(read(given, pieceBytes).refusal).toBe(400);
  }
});

test("an endless head is not buffered", () => {
  for (const endless of [`GET /${long(200_000)}`, `GET / HTTP/1.1\r\n${"x: y\r\n".repeat(40_000)}`]) {
    expect(read(endless, 1_000)).toEqual({ text: "", refusal: 431 });
  }
  expect(read(`GET /${long(20_000)} HTTP/1.1\r\n\r\n`)).toEqual({ text: "", refusal: 431 });
});

test("a large body passes as it comes and is not buffered", () => {
  const marks = new HeaderInserter(MARK);
  const head = Buffer.from("PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n00001fffffffffff\r\n");
  expect(marks.pass(head).length).toBe(head.length + MARK.length);
  const part = Buffer.alloc(100_000, "\r\n");
  for (let count = 0; count < 10; count++) expect(marks.pass(part)).toEqual(part);
  expect(marks.refusal).toBeNull();
});
