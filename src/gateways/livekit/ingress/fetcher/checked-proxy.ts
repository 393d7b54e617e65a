/**
 * The HTTP proxy of the ffmpeg that fetches a URL. Playlists and redirects lead it to further addresses; all of its connections begin
 * here, where the IP address is checked that is then connected to.
 */
import { createServer, type Socket, connect as tcpConnect } from "node:net";
import { allowedAddresses, type Lookup, type Target } from "../../../../kernel/net/targets.ts";

export type CheckedProxy = { port: number; close(): void };

const HEAD_END = "\r\n\r\n";
const MAX_HEAD_BYTES = 16_384;
const CONNECT_WITHIN_MS = 10_000;

export async function openCheckedProxy(allows: (target: Target) => boolean, lookup: Lookup): Promise<CheckedProxy> {
  const open = new Set<Socket>();
  const keep = (socket: Socket, other: () => Socket | null) => {
    open.add(socket);
    socket.on("error", () => other()?.destroy());
    socket.on("close", () => {
      open.delete(socket);
      other()?.destroy();
    });
  };
  const server = createServer((client) => {
    let head = Buffer.alloc(0);
    let upstream: Socket | null = null;
    keep(client, () => upstream);
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
          const socket = tcpConnect({ host: address, port: wanted.port });
          upstream = socket;
          keep(socket, () => client);
          socket.setTimeout(CONNECT_WITHIN_MS, () => socket.destroy());
          socket.once("connect", () => {
            socket.setTimeout(0);
            if (wanted.head === null) client.write(`HTTP/1.1 200 Connection Established${HEAD_END}`);
            else socket.write(wanted.head);
            socket.write(head.subarray(end + HEAD_END.length));
            socket.pipe(client);
            client.pipe(socket);
          });
        },
        () => refuse("502 Bad Gateway"),
      );
    };
    client.on("data", read);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve());
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : 0,
    close() {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
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
