/** Node's own parser of HTTP (llhttp), which shares nothing with the edge's or with the server's. */
export type ReadRequest = { url: string; headers: string[]; body: string; isWhole: boolean };

type ReadByLlhttp = { requests: ReadRequest[]; error: { code: string; at: number } | null };

type Parser = {
  initialize(kind: number, resource: object, maxHeaderBytes: number, lenience: number): void;
  execute(data: Buffer, offset: number, length: number): number | Error;
  [callback: number]: (...given: never[]) => unknown;
};
type ParserClass = { new (): Parser } & Record<
  "REQUEST" | "kLenientKeepAlive" | "kOnHeaders" | "kOnHeadersComplete" | "kOnBody" | "kOnMessageComplete",
  number
>;
/** The module has no types. */
const { HTTPParser } = (await import("node:_http_common" as string)) as { HTTPParser: ParserClass };

/** The requests that llhttp finds in these bytes, up to the first that it refuses. */
export function readByLlhttp(data: Buffer): ReadByLlhttp {
  const requests: ReadRequest[] = [];
  const parser = new HTTPParser();
  // The start of the next request is found even if the last one is of HTTP/1.0, which ends the connection.
  parser.initialize(HTTPParser.REQUEST, {}, 64 * 1_024, HTTPParser.kLenientKeepAlive);
  // Once a request had trailers, the headers of those behind it are told apart from their end, as in Node's own server.
  let flushed: { fields: string[]; url: string } = { fields: [], url: "" };
  parser[HTTPParser.kOnHeaders] = (fields: string[], url: string) => {
    flushed = { fields: [...flushed.fields, ...fields], url: flushed.url + url };
  };
  parser[HTTPParser.kOnHeadersComplete] = (
    _major: number,
    _minor: number,
    given: string[] | undefined,
    _method: number,
    givenUrl: string | undefined,
  ) => {
    const { fields, url } = given ? { fields: given, url: givenUrl ?? "" } : flushed;
    const headers = fields.filter((_field, index) => index % 2 === 0).map((name) => name.toLowerCase());
    requests.push({ url, headers, body: "", isWhole: false });
    flushed = { fields: [], url: "" };
    return 0;
  };
  parser[HTTPParser.kOnBody] = (bytes: Buffer) => {
    const request = requests.at(-1);
    if (request) request.body += bytes.toString("latin1");
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    const request = requests.at(-1);
    if (request) request.isWhole = true;
    // Trailers came the same way.
    flushed = { fields: [], url: "" };
  };
  const result = parser.execute(data, 0, data.length);
  if (!(result instanceof Error)) return { requests, error: null };
  const { code, bytesParsed } = result as Error & { code: string; bytesParsed: number };
  return { requests, error: { code, at: bytesParsed } };
}
