/** Bytes that are requests, or nearly: now and then one of their parts is spelt as no parser should take it. */
import fc from "fast-check";

/** A body that looks like a request is forwarded as a body. */
const LOOKALIKE = "GET /inside HTTP/1.1\r\nhost: inside\r\n\r\n";

/** Mostly as it should be, so that many bytes are read before something is odd. */
function mostly(usual: fc.Arbitrary<string>, odd: readonly string[], oddity: number): fc.Arbitrary<string> {
  if (oddity === 0) return usual;
  return fc.oneof({ weight: 100 - oddity, arbitrary: usual }, { weight: oddity, arbitrary: fc.constantFrom(...odd) });
}

const ODD_ENDS = ["\n", "\r", "\r\r\n", "", " \r\n", "\n\r\n", "\0\r\n"];
const ODD_SIZES = [
  "-6",
  "-8",
  "-0",
  "+5",
  "0x5",
  "5h",
  " 5",
  "5 ",
  "",
  "1e",
  "5,5",
  "ffffffffffffffff",
  "f".repeat(300),
];
const ODD_EXTENSIONS = [" ;a", ";", ";=b", ";a=", ';a="', ";a\nb", ";a\rb", ";a b", ";\0", `;${"a".repeat(2_000)}`];
const ODD_LENGTHS = ["-1", "+5", "0x5", "5, 5", "5,6", "1e1", "", "\v5", "\xa05", "5\f", "5 5", "9".repeat(20), "5;"];
const ODD_CODINGS = ["gzip, chunked", "chunked, chunked", "chunked, identity", "identity", "xchunked", "", "\vchunked"];
const ODD_HEADERS = [
  " folded: 1",
  "\tfolded",
  "nothing",
  ": nameless",
  "content-length : 5",
  "transfer-encoding\t: chunked",
  "x: a\rcontent-length: 5",
  "x: a\ncontent-length: 5",
  "x: a\0b",
  "x(y): 1",
  "content-length: 5",
  "transfer-encoding: chunked",
  "upgrade: websocket",
];

/** `oddity`: how many of a hundred parts are odd. */
export function requestBytes(oddity: number): fc.Arbitrary<string> {
  const lineEnd = mostly(fc.constant("\r\n"), ODD_ENDS, oddity);
  const line = (text: fc.Arbitrary<string>) => fc.tuple(text, lineEnd).map((parts) => parts.join(""));
  const name = fc.constantFrom("accept", "X-Y", "content-type", "content-lengths", "te", "x~!#$%&'*+.^_`|y");
  const value = fc.constantFrom("", "a", "a b;q=1, c", "content-length: 7", "\xe4\t\xff", '"x"');
  const spelt = fc.constantFrom(": ", ":", ":\t ", ":  ");
  const header = mostly(
    fc.tuple(name, spelt, value).map((parts) => parts.join("")),
    ODD_HEADERS,
    oddity,
  );
  const headers = (maxLength: number) => fc.array(line(header), { maxLength }).map((lines) => lines.join(""));

  const noise = fc.string({ unit: fc.constantFrom(..."a0-;: \r\n\0\xff"), maxLength: 20 });
  const content = fc.oneof(fc.constantFrom("", LOOKALIKE, "\r\n\r\n", "0\r\n\r\n"), noise);
  const hexadecimal = (size: number) =>
    fc.tuple(fc.constantFrom("", "0", "000"), fc.boolean()).map(([zeros, isUpper]) => {
      const digits = size.toString(16);
      return zeros + (isUpper ? digits.toUpperCase() : digits);
    });
  const extension = mostly(fc.constantFrom("", "", "", ";a", ";a=b", ';a="b c";d'), ODD_EXTENSIONS, oddity);
  const chunk = (text: string) =>
    fc
      .tuple(mostly(hexadecimal(text.length), ODD_SIZES, oddity), extension, lineEnd, lineEnd)
      .map(([size, extended, end, last]) => `${size}${extended}${end}${text}${text === "" ? "" : last}`);
  const chunks = fc
    .array(
      content.filter((text) => text !== ""),
      { maxLength: 3 },
    )
    .chain((texts) => fc.tuple(...[...texts, ""].map(chunk)))
    .map((parts) => parts.join(""));
  const chunkedBody = fc.tuple(chunks, fc.oneof({ weight: 3, arbitrary: fc.constant("") }, headers(2)), lineEnd);

  const sized = content.chain((body) =>
    mostly(fc.constantFrom(`${body.length}`, `00${body.length}`, `${body.length}\t `), ODD_LENGTHS, oddity).map(
      (length) => [`Content-Length: ${length}`, body] as const,
    ),
  );
  const chunked = fc
    .tuple(mostly(fc.constantFrom("chunked", "Chunked", "chunked "), ODD_CODINGS, oddity), chunkedBody)
    .map(([coding, body]) => [`transfer-encoding: ${coding}`, body.join("")] as const);
  const framed = fc.oneof(fc.constant(["x-none: 1", ""] as const), sized, chunked);

  const method = fc.constantFrom("GET", "POST", "PUT", "DELETE", "HEAD");
  const target = fc.constantFrom("/", "/a?b=c", "*", "/%20");
  const version = mostly(fc.constant("HTTP/1.1"), ["HTTP/1.0", "HTTP/2.0", "", "http/1.1", "HTTP/1.1 "], oddity);
  const request = fc
    .tuple(fc.tuple(method, target, version), lineEnd, headers(2), framed, lineEnd, headers(2), lineEnd)
    .map(([first, end, before, [framing, body], framingEnd, after, last]) =>
      [first.join(" "), end, "host: a\r\n", before, framing, framingEnd, after, last, body].join(""),
    );
  return fc.array(request, { minLength: 1, maxLength: 4 }).map((requests) => requests.join(""));
}
