import { expect, test } from "bun:test";
import { inflateRawSync } from "node:zlib";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";

test("[21] the offer for a full room is compressed, and a small one is not", async () => {
  const offers: { id: string; sdp?: string; sdpDeflate?: string }[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: (request, self) => (self.upgrade(request) ? undefined : new Response(null, { status: 400 })),
    websocket: {
      message(socket, text) {
        const { type, id, ...rest } = JSON.parse(String(text));
        if (type === "media.offer") offers.push({ id, ...rest });
        socket.send(JSON.stringify({ type: "ack", id, seq: 0, sdp: "v=0\r\n", tracks: [] }));
      },
    },
  });
  const client = new SignalingClient({ url: `http://127.0.0.1:${server.port}`, token: "t" });
  try {
    await client.join();
    const large = "v=0\r\na=mid:0\r\n".repeat(2_000);
    await client.negotiate({ sdp: "v=0\r\n" });
    await client.negotiate({ sdp: large });
    expect(offers.map(({ sdp }) => sdp)).toEqual(["v=0\r\n", undefined]);
    expect(inflateRawSync(Buffer.from(offers[1]?.sdpDeflate ?? "", "base64")).toString()).toBe(large);
  } finally {
    client.close();
    await server.stop(true);
  }
});
