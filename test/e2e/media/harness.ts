/** A media node, a page per participant, and a bridge between them instead of the signaling socket. */
import type { Browser, Page } from "playwright-core";
import { EmbeddedMedia, type EmbeddedMediaOptions } from "../../../src/nodes/embedded-media.ts";
import type { FanOutChoice } from "../../../src/nodes/native-library.ts";
import type { MediaEvent, MediaNode } from "../../../src/protocol/media-node.ts";
import type { Permissions } from "../../../src/protocol/room-records.ts";

const ALL: Permissions = {
  join: true,
  subscribe: true,
  publish: true,
  publishAudio: false,
  publishVideo: false,
  publishData: true,
  updateMetadata: true,
};

export function startMedia(options: Partial<EmbeddedMediaOptions> = {}): Promise<EmbeddedMedia> {
  return EmbeddedMedia.start({
    workers: 1,
    port: 0,
    hostname: "127.0.0.1",
    announce: ["127.0.0.1"],
    tcp: true,
    fanOut: fanOutUnderTest(),
    log: { info: () => {}, error: () => {} },
    ...options,
  });
}

/** `MEDIA_FAN_OUT=typescript bin/test e2e/media` tests calls without native code. */
function fanOutUnderTest(): FanOutChoice {
  return process.env.MEDIA_FAN_OUT === "typescript" ? "typescript" : "auto";
}

export type Bridge = { url: string; events: MediaEvent[]; stop(): Promise<void> };

type Joined = { roomId: string; participantId: string };

/** Serves the page and passes its socket's messages to the media node's methods. */
export async function startBridge(media: MediaNode): Promise<Bridge> {
  const built = await Bun.build({ entrypoints: [`${import.meta.dir}/page.ts`], target: "browser" });
  const script = (await built.outputs[0]?.text()) ?? "";
  const events: MediaEvent[] = [];
  const sockets = new Map<string, Bun.ServerWebSocket<Joined>>();
  const server = Bun.serve<Joined, never>({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request, self) {
      const url = new URL(request.url);
      if (url.pathname === "/page.js") return new Response(script, { headers: { "content-type": "text/javascript" } });
      if (url.pathname !== "/bridge") {
        return new Response('<!doctype html><body><script type="module" src="/page.js"></script>', {
          headers: { "content-type": "text/html" },
        });
      }
      const roomId = "room";
      const identity = url.searchParams.get("identity") ?? "someone";
      const participantId = `${identity}-${crypto.randomUUID()}`;
      await media.openRoom({ roomId });
      await media.addParticipant({ roomId, participantId, identity, permissions: ALL });
      return self.upgrade(request, { data: { roomId, participantId } })
        ? undefined
        : new Response(null, { status: 400 });
    },
    websocket: {
      // A later participant gets the existing tracks, as in a join.
      async open(socket) {
        const { roomId, participantId } = socket.data;
        sockets.set(participantId, socket);
        const room = await media.room({ roomId });
        for (const { tracks, ...other } of room?.participants ?? []) {
          if (other.participantId === participantId) continue;
          for (const track of tracks)
            socket.send(JSON.stringify({ event: { type: "trackPublished", roomId, ...other, track } }));
        }
      },
      close: (socket) => void sockets.delete(socket.data.participantId),
      async message(socket, text) {
        const { id, method, request } = JSON.parse(String(text));
        try {
          const call = media[method as "negotiate"] as (request: object) => Promise<unknown>;
          const response = await call.call(media, { ...socket.data, ...request });
          socket.send(JSON.stringify({ id, response: response ?? null }));
        } catch (error) {
          socket.send(JSON.stringify({ id, error: String(error) }));
        }
      },
    },
  });
  const off = media.onEvent((event) => {
    events.push(event);
    for (const socket of sockets.values()) socket.send(JSON.stringify({ event }));
  });
  return {
    url: `http://127.0.0.1:${server.port}/`,
    events,
    async stop() {
      off();
      await server.stop(true);
    },
  };
}

export async function join(browser: Browser, bridge: Bridge, identity: string): Promise<Page> {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(identity, error));
  await page.goto(bridge.url);
  await page.waitForFunction(() => typeof window.join === "function");
  await page.evaluate((text) => window.join(text), new URLSearchParams({ identity }).toString());
  return page;
}
