/** A push service for Firefox: it registers endpoints over a socket and delivers the messages posted to them. */

/** The messages of a browser, reduced to the fields that are needed here. */
type BrowserMessage = {
  messageType: "hello" | "register" | "unregister" | "ack" | "ping";
  channelID?: string;
  uaid?: string;
};

export type Posted = { headers: Headers; body: Buffer };
export type PushService = {
  /** The value of `dom.push.serverURL`. */
  socketUrl: string;
  posted: Posted[];
  /** The acknowledgements of the browser. */
  acknowledged: number;
  close(): Promise<void>;
};

export function startPushService(): PushService {
  const browsers = new Map<string, Bun.ServerWebSocket<undefined>>();
  const state = { posted: [] as Posted[], acknowledged: 0 };
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, self) {
      if (self.upgrade(request, { data: undefined })) return undefined;
      const channelID = new URL(request.url).pathname.slice(1);
      const browser = browsers.get(channelID);
      const body = Buffer.from(await request.arrayBuffer());
      state.posted.push({ headers: request.headers, body });
      if (!browser) return new Response(null, { status: 410 });
      send(browser, {
        messageType: "notification",
        channelID,
        version: crypto.randomUUID(),
        data: body.toString("base64url"),
        headers: { encoding: request.headers.get("content-encoding") },
      });
      return new Response(null, { status: 201 });
    },
    websocket: {
      message(socket, text) {
        const { messageType, channelID = "", uaid } = JSON.parse(String(text)) as BrowserMessage;
        switch (messageType) {
          case "hello":
            // A browser without a previous id is new.
            send(socket, {
              messageType,
              status: 200,
              uaid: uaid || crypto.randomUUID(),
              use_webpush: true,
              broadcasts: {},
            });
            break;
          case "register":
            browsers.set(channelID, socket);
            send(socket, { messageType, status: 200, channelID, pushEndpoint: new URL(channelID, server.url).href });
            break;
          case "unregister":
            browsers.delete(channelID);
            send(socket, { messageType, status: 200, channelID });
            break;
          case "ack":
            state.acknowledged += 1;
            break;
          case "ping":
            send(socket, {});
        }
      },
    },
  });
  const { url } = server;
  return Object.assign(state, {
    socketUrl: `ws://${url.host}/`,
    close: () => server.stop(true),
  });
}

function send(socket: Bun.ServerWebSocket<undefined>, words: object): void {
  socket.send(JSON.stringify(words));
}
