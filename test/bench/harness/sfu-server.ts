/** The media node in a process of its own, so that its CPU time is its alone. One JSON object a line: calls in, answers out. */
import { EmbeddedMedia } from "../../../src/nodes/embedded-media.ts";

const [address = "127.0.0.1", workers = "1"] = process.argv.slice(2);
const media = await EmbeddedMedia.start({
  workers: Number(workers),
  port: 0,
  hostname: address,
  announce: [address],
  tcp: false,
  ...(process.env.MEDIA_SPREAD === "off" && { spreadFrom: Number.POSITIVE_INFINITY }),
  fanOut: (process.env.MEDIA_FAN_OUT ?? "auto") as "auto" | "typescript" | "native",
  log: { info: () => {}, error: (details, message) => console.error(message, details) },
});

for await (const line of console) {
  if (line === "") break;
  const { id, method, request } = JSON.parse(line);
  if (method === "cpu") {
    console.log(JSON.stringify({ id, response: process.cpuUsage() }));
    continue;
  }
  try {
    const call = media[method as "negotiate"] as (request: object) => Promise<unknown>;
    console.log(JSON.stringify({ id, response: (await call.call(media, request)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ id, error: String(error) }));
  }
}
await media.close();
