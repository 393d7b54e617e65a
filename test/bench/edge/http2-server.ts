/** One answer by HTTP/1.1, by Bun's HTTP/2 and by that of node:http2, all without TLS: the edge has ended it. Prints the ports. */
import { createServer, type ServerHttp2Stream } from "node:http2";

const BODY = JSON.stringify({ id: "prj_1", name: "test", about: "x".repeat(200) });
const HEADERS = { "content-type": "application/json" };
const place = { hostname: "127.0.0.1", port: 0, fetch: () => new Response(BODY, { headers: HEADERS }) };
const [one, two] = [Bun.serve(place), Bun.serve({ ...place, http2: true } as typeof place)];
const node = createServer({ settings: { enableConnectProtocol: true } });
node.on("stream", (stream: ServerHttp2Stream, { ":method": method }) => {
  stream.respond({ ":status": 200, ...HEADERS });
  if (method === "CONNECT") stream.pipe(stream);
  else stream.end(BODY);
});
node.on("sessionError", () => {});
node.listen(0, "127.0.0.1", () => {
  const { port } = node.address() as { port: number };
  console.log(JSON.stringify({ one: one.port, two: two.port, node: port }));
});
