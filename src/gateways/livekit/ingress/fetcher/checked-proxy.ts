/**
 * The HTTP proxy of the ffmpeg that fetches a URL. Playlists and redirects lead it to further addresses; all of its connections begin
 * here, where the IP address is checked that is then connected to.
 */
import { connect as tcpConnect } from "node:net";
import { type LoopbackRelay, openLoopbackRelay } from "../../../../kernel/net/loopback-relay.ts";
import { allowedAddresses, type Lookup, type Target } from "../../../../kernel/net/targets.ts";

const HEAD_END = "\r\n\r\n";
const MAX_HEAD_BYTES = 16_384;
const CONNECT_WITHIN_MS = 10_000;

export function openCheckedProxy(allows: (target: Target) => boolean, lookup: Lookup): Promise<LoopbackRelay> {
  return openLoopbackRelay((client, joinTo) => {
    let head = Buffer.alloc(0);
    const refuse = (status: string) => client.end(`HTTP/1.1 ${status}${HEAD_END}`);
    const read = (bytes: Buffer) => {
      head = Buffer.concat([head, bytes]);
      const end = head.indexOf(HEAD_END);
      if (end < 0) return head.length > MAX_HEAD_BYTES ? void refuse("431 Request Header Fields Too Large") : undefined;
      client.off("data", read);
      client.pause();
      const wanted = requestOf(head.subarray(0, end).toString("latin1"));
      if (!wanted) return void refuse("400 Bad Request");
      allowedAddresses(wanted.url, allows, lookup).then(
        ([address]) => {
          if (address === undefined || client.destroyed) return refuse("403 Forbidden");
          const upstream = tcpConnect({ host: address, port: wanted.port });
          joinTo(upstream);
          upstream.setTimeout(CONNECT_WITHIN_MS, () => upstream.destroy());
          upstream.once("connect", () => {
            upstream.setTimeout(0);
            if (wanted.head === null) client.write(`HTTP/1.1 200 Connection Established${HEAD_END}`);
            else upstream.write(wanted.head);
            upstream.write(head.subarray(end + HEAD_END.length));
            upstream.pipe(client);
            client.pipe(upstream);
          });
        },
        () => refuse("502 Bad Gateway"),
      );
    };
    client.on("data", read);
  });
}

type Wanted = { url: URL; port: number; head: string | null };

/** A tunnel for TLS, or one plain request: its connection is closed after the answer, as another could go elsewhere. */
export function requestOf(head: string): Wanted | null {
  const [line = "", ...fields] = head.split("\r\n");
  const [method = "", target = ""] = line.split(" ");
  if (method === "CONNECT") {
    const url = URL.canParse(`https://${target}`) ? new URL(`https://${target}`) : null;
    return url && { url, port: Number(url.port || 443), head: null };
  }
  if (method !== "GET" || !target.startsWith("http://") || !URL.canParse(target)) return null;
  const url = new URL(target);
  const kept = fields.filter((field) => !/^(?:connection|proxy-[\w-]+):/i.test(field));
  const lines = [`GET ${url.pathname}${url.search} HTTP/1.1`, ...kept, "Connection: close"];
  return { url, port: Number(url.port || 80), head: lines.join("\r\n") + HEAD_END };
}
