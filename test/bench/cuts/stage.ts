/** A server and browsers on machines of their own, and calls between them that are cut one by one. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { chromium } from "playwright-core";
import { Stoa } from "../../../web/sdk/server.ts";
import { FROM_SOURCE, startStoa } from "../../cli/stoa.ts";
import { launchFirefox } from "../../e2e/sdk/firefox.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { serveSite } from "../../e2e/sdk/stage.ts";
import { tunnel } from "../../foreign/clients.ts";
import { CHROMIUM } from "../../harness/browsers.ts";
import { type Machine, openLan } from "../../harness/namespaces.ts";
import { keyPath, prepareData } from "../../ops/served.ts";

export type BrowserName = "Chromium" | "Firefox";
export type Way = { endpoint: string; token: string };

export type Stage = {
  page(browser: BrowserName): Promise<Scripted>;
  /** A room that is reached by an address of its own, and whose media has a port of its own. */
  openRoom(name: string): Promise<Room>;
  close(): Promise<void>;
};
export type Room = {
  join(identity: string): Promise<Way>;
  /** From now on not a packet passes, neither way, of its sockets and of the media port. */
  cut(mediaPort: number): Promise<void>;
  heal(mediaPort: number): Promise<void>;
};

const HTTP_PORT = 3000;
const FIRST_MEDIA_PORT = 7001;
const FIRST_ADDRESS = 100;
const PING_EVERY_MS = 5_000;
/** There is no graphics card to draw with, nobody listens, and the camera has a low frame rate. */
const LIGHT = ["--mute-audio", "--disable-software-rasterizer", "--disable-smooth-scrolling", "--disable-extensions"];
const LIGHT_PREFERENCES = {
  "media.devices.insecure.enabled": true,
  "media.getusermedia.insecure.enabled": true,
  "gfx.canvas.accelerated": false,
  "layout.frame_rate": 10,
  "browser.sessionstore.interval": 3_600_000,
  "accessibility.force_disabled": 1,
};

export async function openStage(rooms: number, frameRate: number): Promise<Stage> {
  const work = mkdtempSync(join(tmpdir(), "stoa-cuts-"));
  const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true })];
  const lan = await openLan("server", "guests");
  stops.push(() => lan.close());
  const { server, guests } = lan.machines;
  const network = server.address.replace(/\.\d+$/, "");
  await Promise.all([dropWhatIsCut(server, "daddr", "dport"), dropWhatIsCut(guests, "saddr", "sport")]);
  const site = await serveSite(lan.address);
  stops.push(() => site.stop(true));

  const dataDir = join(work, "data");
  await prepareData(dataDir);
  // A worker, and so a port, for the media of each room.
  const media = ["--media-udp-port", String(FIRST_MEDIA_PORT), "--media-workers", String(rooms)];
  const { child } = await startStoa([
    ...[...server.prefix, ...FROM_SOURCE, "serve", "--host", "0.0.0.0", "--port", String(HTTP_PORT)],
    ...["--data-dir", dataDir, ...media, "--public-ip", server.address],
    ...["--signaling-max-connections-per-window", "1000"],
  ]);
  stops.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  const stoa = new Stoa({
    url: `http://${server.address}:${HTTP_PORT}`,
    apiKey: readFileSync(keyPath(dataDir), "utf8").trim(),
  });

  const camera = `--use-fake-device-for-media-stream=device-count=1,fps=${frameRate}`;
  const [browser, firefox] = await Promise.all([
    chromium.launch({
      ...CHROMIUM,
      executablePath: guests.wrapper(CHROMIUM.executablePath, work),
      args: [...CHROMIUM.args, ...LIGHT, camera, `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`],
    }),
    launchFirefox({
      prefix: guests.prefix,
      preferences: LIGHT_PREFERENCES,
      async reach(inside) {
        const { url, stop } = await tunnel(guests, inside);
        stops.push(stop);
        return url;
      },
    }),
  ]);
  stops.push(
    () => browser.close(),
    () => firefox.close(),
  );

  let opened = 0;
  return {
    async page(name) {
      if (name === "Firefox") return firefox.page(site.url.origin);
      const context = await browser.newContext({ permissions: ["camera", "microphone"] });
      const page = await context.newPage();
      await page.goto(site.url.origin);
      return page;
    },
    async openRoom(name) {
      const address = `${network}.${FIRST_ADDRESS + opened++}`;
      await $`${server.prefix} ip address add ${address}/24 dev eth0`.quiet();
      const { id } = await stoa.rooms.create({ name });
      const mint = (participantIdentity: string) =>
        stoa.rtcTokens.mint(id, { participantIdentity, permissions: { publish: true } });
      const resident = await stay(await mint("resident"));
      stops.push(() => resident.close());
      const change = (what: "add" | "delete", port: number) =>
        Promise.all(
          [server, guests].map(({ prefix }) => {
            const elements = [`addresses { ${address} }`, `ports { ${port} }`];
            return $`${prefix} nft ${elements.map((one) => `${what} element inet cuts ${one};`).join(" ")}`.quiet();
          }),
        );
      return {
        async join(identity) {
          const { endpoint, token } = await mint(identity);
          const url = new URL(endpoint);
          url.hostname = address;
          return { endpoint: url.href, token };
        },
        cut: async (port) => void (await change("add", port)),
        heal: async (port) => void (await change("delete", port)),
      };
    },
    async close() {
      for (const stop of stops.reverse()) await stop();
    },
  };
}

/** The packets are dropped at their receiver, so that the sender does not notice, as with a cable pulled out on the way. */
async function dropWhatIsCut({ prefix }: Machine, address: string, port: string): Promise<void> {
  const lines = [
    "add table inet cuts",
    "add set inet cuts addresses { type ipv4_addr; }",
    "add set inet cuts ports { type inet_service; }",
    "add chain inet cuts input { type filter hook input priority 0; }",
    `add rule inet cuts input ip ${address} @addresses drop`,
    `add rule inet cuts input udp ${port} @ports drop`,
    `add rule inet cuts input tcp ${port} @ports drop`,
  ];
  await $`${prefix} nft ${lines.join("; ")}`.quiet();
}

/** A participant without media whom nothing cuts off: a room that is empty moves to another worker, and another port. */
async function stay({ endpoint, token }: Way): Promise<WebSocket> {
  const socket = new WebSocket(endpoint, [`token.${token}`]);
  const say = (frame: object) => socket.send(JSON.stringify(frame));
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () =>
      say({ type: "room.join", id: "1", connectionId: crypto.randomUUID(), sdk: "bench" }),
    );
    socket.addEventListener("message", ({ data }) => {
      const { id, type } = JSON.parse(String(data));
      if (id !== "1") return;
      if (type === "error") reject(new Error(String(data)));
      else resolve();
    });
    socket.addEventListener("close", ({ code, reason }) => reject(new Error(`closed ${code} ${reason}`)));
  });
  const pings = setInterval(() => say({ type: "ping" }), PING_EVERY_MS);
  socket.addEventListener("close", () => clearInterval(pings));
  return socket;
}
