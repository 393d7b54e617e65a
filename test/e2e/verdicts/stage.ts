/** A server on a machine of its own, one machine with a good network, and others whose links, processors and cameras fail. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { type Browser, chromium, type Page } from "playwright-core";
import type { CallVerdict } from "../../../src/protocol/room-records.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../../cli/stoa.ts";
import { CHROMIUM } from "../../harness/browsers.ts";
import { type Machine, openLan } from "../../harness/namespaces.ts";
import { makeCertificate } from "../../ops/certificate.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import { type Link, openLink } from "../networks/link.ts";
import { serveSite } from "../sdk/stage.ts";
import { takePart, type Video } from "./page.ts";
import { putFirst } from "./quota.ts";

const MEDIA_PORT = "7001";
const EDGE_PORT = "8443";
const TURN_PORT = "3478";
const PATIENCE_MS = 90_000;

/** A participant's computer, network and camera. */
export type Place = {
  machine: Machine;
  link: Link;
  browser: Browser;
  /** The video that the camera shows; without it the camera cannot be opened. */
  cameraFile: string;
  /** Another browser, and the camera plugged in. */
  renew(): Promise<void>;
};

export type Wishes = {
  relayOnly?: boolean;
  video?: Video;
  /** The video of the other camera. */
  nearVideo?: Video;
};

/** Two people in a room: `far` is where the trouble is. */
export type TroubledCall = {
  far: Page;
  near: Page;
  roomId: string;
  /** The verdicts that `far` has received so far. */
  told(): Promise<CallVerdict[]>;
  /** Both leave; the verdicts of the record, one for each time that a participant joined. */
  end(): Promise<{ far: CallVerdict[]; near: CallVerdict[] }>;
  /** Both are gone, whatever became of them. */
  abandon(): Promise<void>;
};

export type VerdictStage = {
  server: Machine;
  /** The port of the API and the sockets. */
  serverPort: number;
  places: Place[];
  call(place: Place, wishes?: Wishes): Promise<TroubledCall>;
  close(): Promise<void>;
};

/** Little enough that many of them fit on one machine. */
const TINY: Video = { width: 160, height: 90, framesPerSecond: 8 };

export async function openVerdictStage(placeCount: number): Promise<VerdictStage> {
  const work = mkdtempSync(join(tmpdir(), "stoa-verdicts-"));
  const names = Array.from({ length: placeCount }, (_, n) => `far${n}`);
  const lan = await openLan("server", "near", ...names);
  const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true }), () => lan.close()];
  const close = async () => {
    for (const stop of stops.reverse()) await stop();
  };
  try {
    const { server, near } = lan.machines as Record<string, Machine> & Record<"server" | "near", Machine>;
    const site = await serveSite(lan.address);
    stops.push(() => site.stop(true));
    const launch = async (machine: Machine, ...more: string[]) => {
      const secure = `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`;
      const executablePath = machine.wrapper(CHROMIUM.executablePath, work);
      const browser = await chromium.launch({
        ...CHROMIUM,
        executablePath,
        args: [...CHROMIUM.args, secure, ...more],
      });
      stops.push(() => browser.close());
      return browser;
    };
    const { stoa, url, child } = await startServer(server, work);
    // The browsers of all participants are on this machine: beside them it would be overloaded, and rightly say so of every call.
    const first = putFirst(await processesOf(server));
    stops.push(async () => {
      first.release();
      child.kill("SIGKILL");
      await child.exited;
    });
    const places: Place[] = [];
    for (const name of names) {
      const machine = (lan.machines as Record<string, Machine>)[name];
      if (!machine) throw new Error(`there is no ${name}`);
      const link = await openLink(server, machine);
      stops.push(() => link.close());
      const cameraFile = join(work, `${name}.y4m`);
      const open = () => {
        writeFileSync(cameraFile, film());
        return launch(machine, `--use-file-for-fake-video-capture=${cameraFile}`);
      };
      const renew = async () => {
        await place.browser.close();
        place.browser = await open();
      };
      const place: Place = { machine, link, browser: await open(), cameraFile, renew };
      places.push(place);
    }
    const nearBrowser = await launch(near);

    type Visitor = { page: Page; roomId: string; identity: string; wishes: Wishes };
    const takesPart = async ({ page, roomId, identity: participantIdentity, wishes }: Visitor) => {
      const permissions = { publish: true };
      const { endpoint, token } = await stoa.rtcTokens.mint(roomId, { participantIdentity, permissions });
      page.setDefaultTimeout(PATIENCE_MS);
      await page.goto(site.url.origin);
      const { relayOnly = false, video = TINY } = wishes;
      await page.evaluate(takePart, { endpoint: plain(endpoint, url), token, relayOnly, video });
      await page.waitForFunction(() => window.call.frames() > 0);
    };

    return {
      server,
      serverPort: Number(new URL(url).port),
      places,
      async call({ browser }, wishes = {}) {
        const { id: roomId } = await stoa.rooms.create({ name: `verdicts-${crypto.randomUUID()}` });
        const open = async (one: Browser) => {
          const context = await one.newContext({ permissions: ["camera", "microphone"] });
          return context.newPage();
        };
        const [far, near] = await Promise.all([open(browser), open(nearBrowser)]);
        const pages = [far, near];
        const abandon = async () => {
          await Promise.allSettled(pages.map((page) => page.context().close()));
        };
        try {
          await Promise.all([
            takesPart({ page: far, roomId, identity: "far", wishes }),
            takesPart({ page: near, roomId, identity: "near", wishes: { video: wishes.nearVideo } }),
          ]);
        } catch (error) {
          await abandon();
          throw error;
        }
        return {
          far,
          near,
          roomId,
          told: () => far.evaluate(() => window.call.explained),
          async end() {
            for (const page of pages) {
              await page.evaluate(() => window.call.room.close()).catch(() => {});
              await page.context().close();
            }
            return ended(stoa, roomId);
          },
          abandon,
        };
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The same place without TLS. */
function plain(endpoint: string, url: string): string {
  return Object.assign(new URL(endpoint), { protocol: "ws:", host: new URL(url).host }).href;
}

/** The verdicts of the room's call, once both have left it. */
async function ended(stoa: Stoa, roomId: string) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await Bun.sleep(200)) {
    const [call] = await Array.fromAsync(stoa.calls.list({ roomId }));
    if (call?.status !== "ENDED") continue;
    const { participants } = await stoa.calls.get(call.id);
    const of = (identity: string) =>
      participants.flatMap((one) => (one.identity === identity && one.verdict ? [one.verdict] : []));
    return { far: of("far"), near: of("near") };
  }
  throw new Error("the call did not end");
}

async function startServer(machine: Machine, folder: string) {
  const dataDir = join(folder, "data");
  await prepareData(dataDir);
  const { cert, key } = await makeCertificate(folder, "verdicts");
  const media = ["--media-udp-port", MEDIA_PORT, "--media-workers", "1", "--public-ip", machine.address];
  // Pages speak plain HTTP to the server. It has TLS because without TLS it offers no relay.
  const relay = ["--tls-cert", cert, "--tls-key", key, "--edge-port", EDGE_PORT, "--turn-udp-port", TURN_PORT];
  const address = ["--host", machine.address, "--public-url", `https://${machine.address}:${EDGE_PORT}`];
  const generous = ["--signaling-max-connections-per-window", "100000", "--rate-limit-telemetry", "100000"];
  const { url, child } = await startStoa([
    ...machine.prefix,
    ...PROGRAM,
    "serve",
    ...["--data-dir", dataDir, ...address, ...media, ...relay, ...generous],
  ]);
  void drain(child.stdout);
  void drain(child.stderr);
  return { url, child, stoa: new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() }) };
}

async function drain(stream: ReadableStream<Uint8Array>): Promise<void> {
  if (stream.locked) return;
  for await (const _ of stream);
}

/** All processes of a machine. */
export async function processesOf(machine: Machine): Promise<number[]> {
  const space = machine.prefix.at(-1) ?? "";
  return (await $`ip netns pids ${space}`.text()).split("\n").filter(Boolean).map(Number);
}

/** Two seconds of a grey that changes, uncompressed: what a camera made of a file takes. */
function film(): Buffer {
  const [width, height, frames] = [320, 180, 20];
  const head = Buffer.from(`YUV4MPEG2 W${width} H${height} F10:1 Ip A1:1 C420jpeg\n`);
  const pictures = Array.from({ length: frames }, (_, n) =>
    Buffer.concat([Buffer.from("FRAME\n"), Buffer.alloc((width * height * 3) / 2, 60 + n * 8)]),
  );
  return Buffer.concat([head, ...pictures]);
}
