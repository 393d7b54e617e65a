/**
 * A participant in a process of its own, who speaks, answers the requests `add`, and on the request `send` sends the bytes that
 * `prepare` made over a network that loses packets: `bun sender.ts ENDPOINT TOKEN LOSS`.
 */
import { join, tone } from "../../../src/rtc-client/participant/participant.ts";

const [endpoint = "", token = "", loss = "0"] = process.argv.slice(2);
const sender = await join(endpoint, token);
sender.onRequest("add", (payload) => String(Number(payload) + 1));
let file = new Blob();
// Made before it is sent, because that takes a while, in which nothing else is done. Answered with its hash.
sender.onRequest("prepare", (bytes) => {
  const content = new Uint8Array(Number(bytes));
  for (let at = 0; at < content.length; at += 65_536) crypto.getRandomValues(content.subarray(at, at + 65_536));
  file = new Blob([content]);
  sender.network({ loss: Number(loss), seed: 11 });
  return Bun.SHA256.hash(content, "hex");
});
sender.onRequest("send", (_payload, from) => {
  sender.sendFile(file, { topic: "file", to: [from] }).catch((error) => {
    console.error(error);
    process.exit(1);
  });
  return "";
});
await sender.publishAudio(tone({ hz: 440 }));
