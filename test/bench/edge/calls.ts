/** Calls of real browsers behind networks that let out nothing but tcp 443, or only a proxy. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Stoa } from "../../../web/sdk/server.ts";
import { joinRoom } from "../../browser/sdk/page-api.ts";
import type { Scripted } from "../../browser/sdk/scripted.ts";
import { FROM_SOURCE, startStoa } from "../../cli/stoa.ts";
import { openNetworkCall, type StartHost } from "../../networks/call.ts";
import type { Condition } from "../../networks/link.ts";
import { publishClouds, watchRoom } from "../../networks/page.ts";
import { type Behind, type BrowserName, DOMAIN, issue, nameHosts, openOnePort } from "../../ops/one-port.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import type { Measured } from "../harness/report.ts";
import { runScenario } from "../networks/scenarios.ts";

const FRAMES_TIMEOUT_MS = 60_000;

/** From the start of the page's navigation to the first picture of somebody else. */
async function picturedAfterMs(page: Scripted, id: string): Promise<number> {
  await page.waitForFunction(
    (id) => {
      const element = document.getElementById(id) as (HTMLVideoElement & { mozPaintedFrames?: number }) | null;
      if (!element) return false;
      return Math.max(element.getVideoPlaybackQuality().totalVideoFrames, element.mozPaintedFrames ?? 0) > 0;
    },
    id,
    { timeout: FRAMES_TIMEOUT_MS, polling: 50 },
  );
  return page.evaluate(() => performance.now(), undefined);
}

export async function pageToPicture(): Promise<Measured[]> {
  const stage = await openOnePort();
  const figures: Measured[] = [];
  try {
    const { id: roomId } = await stage.stoa.rooms.create({ name: "page-to-picture" });
    const mint = (participantIdentity: string) =>
      stage.stoa.rtcTokens.mint(roomId, { participantIdentity, permissions: { publish: true } });
    await joinRoom(await stage.page("chromium", "narrow"), await mint("anna"), ["camera", "microphone"], 360);
    for (const behind of ["narrow", "proxied"] as Behind[]) {
      for (const browser of ["chromium", "firefox"] as BrowserName[]) {
        // The first page of a browser pays for its start; a user's is running.
        await stage.page(browser, behind);
        const page = await stage.page(browser, behind);
        await joinRoom(page, await mint(`${browser}-${behind}`), ["camera", "microphone"], 360);
        const value = (await picturedAfterMs(page, "anna-camera")) / 1_000;
        figures.push({ what: `${browser}, ${behind}: page to picture`, value, unit: "s", goal: { atMost: 10 } });
        await page.evaluate(() => window.room.close(), undefined);
      }
    }
  } finally {
    await stage.close();
  }
  return figures;
}

const BAD: Condition = { rateKbit: 700, bufferMs: 500, delayMs: 20, loss: 0.05 };
const ONLY_443 = ["oifname lo accept", "tcp dport 443 accept"];

/** A viewer whose one way is TLS over such a link: what TCP repeats holds up what comes after it. */
export async function lossyCall(seconds: number): Promise<Measured[]> {
  const stops: (() => void)[] = [];
  const call = await openNetworkCall(startSecureHost, {
    browserArgs: ["--ignore-certificate-errors"],
    async prepare(machines, driver) {
      const name = `${machines.server.address} ${DOMAIN}`;
      for (const machine of Object.values(machines)) stops.push(nameHosts(machine, [name]));
      await machines.viewer.keepIn(...ONLY_443, `ip daddr ${driver} accept`, "drop");
    },
  });
  try {
    const scenario = { name: "700 kbit/s and 5 % loss", down: BAD, up: BAD, seconds, goals: {} };
    const outcome = await runScenario(call, scenario);
    console.log(JSON.stringify(outcome));
    return [
      { what: "behind 443, 700 kbit/s and 5 % loss: first picture", value: outcome.firstFrameMs ?? NaN, unit: "ms" },
      { what: "the same: longest freeze", value: outcome.longestStandstillMs, unit: "ms", goal: { atMost: 2_000 } },
      { what: "the same: share of the link", value: outcome.share ?? NaN, unit: "" },
    ];
  } finally {
    await call.close();
    for (const stop of stops) stop();
  }
}

const startSecureHost: StartHost = async (machine, folder) => {
  const dataDir = join(folder, "data");
  await prepareData(dataDir);
  const { cert, key } = await issue(folder, [DOMAIN]);
  const media = ["--media-udp-port", "7001", "--media-workers", "1", "--public-ip", machine.address];
  const domain = ["--domain", DOMAIN, "--tls-cert", cert, "--tls-key", key];
  const command = [...machine.prefix, ...FROM_SOURCE, "serve", "--data-dir", dataDir, ...domain, ...media];
  const { child } = await startStoa(command);
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  const stoa = new Stoa({ url: `https://${machine.address}`, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  const { id: roomId } = await stoa.rooms.create({ name: "lossy" });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(roomId, { participantIdentity, permissions: { publish: true } });
  return {
    publish: async (page) => page.evaluate(publishClouds, await mint("publisher")),
    watch: async (page) => page.evaluate(watchRoom, await mint("viewer")),
    async stop() {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      child.kill("SIGKILL");
      await child.exited;
    },
  };
};
