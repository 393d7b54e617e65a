/** A viewer whose one way is TLS over a narrow, lossy link: what TCP repeats holds up what comes after it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Stoa } from "../../../web/sdk/server.ts";
import { FROM_SOURCE, startStoa } from "../../cli/stoa.ts";
import { openNetworkCall, type StartHost, type Watching } from "../../e2e/networks/call.ts";
import type { Condition } from "../../e2e/networks/link.ts";
import { publishClouds, watchRoom } from "../../e2e/networks/page.ts";
import { launchFirefox } from "../../e2e/sdk/firefox.ts";
import { tunnel } from "../../foreign/clients.ts";
import type { Machine } from "../../harness/namespaces.ts";
import { issue } from "../../ops/certificate.ts";
import { type BrowserName, DOMAIN, nameHosts } from "../../ops/one-port.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import { type Measured, median } from "../harness/report.ts";
import { runScenario } from "../networks/scenarios.ts";

const RUNS = 3;
const BAD: Condition = { rateKbit: 700, bufferMs: 500, delayMs: 20, loss: 0.05 };
const ONLY_443 = ["oifname lo accept", "tcp dport 443 accept"];

export async function lossyCalls(browser: BrowserName, seconds: number): Promise<Measured[]> {
  const stops: (() => void)[] = [];
  const call = await openNetworkCall(startSecureHost, {
    browserArgs: ["--ignore-certificate-errors"],
    ...(browser === "firefox" ? { viewers: firefoxWatching } : {}),
    async prepare(machines, driver) {
      const name = `${machines.server.address} ${DOMAIN}`;
      for (const machine of Object.values(machines)) stops.push(nameHosts(machine, [name]));
      await machines.viewer.keepIn(...ONLY_443, `ip daddr ${driver} accept`, "drop");
    },
  });
  try {
    const scenario = { name: "700 kbit/s and 5 % loss", down: BAD, up: BAD, seconds, goals: {} };
    const outcomes: Awaited<ReturnType<typeof runScenario>>[] = [];
    for (let run = 0; run < RUNS; run++) {
      const outcome = await runScenario(call, scenario);
      console.log(browser, JSON.stringify(outcome));
      outcomes.push(outcome);
    }
    const where = `${browser} behind 443, 700 kbit/s and 5 % loss`;
    const longest = Math.max(...outcomes.map(({ longestStandstillMs }) => longestStandstillMs));
    return [
      {
        what: `${where}: first picture, slowest of ${RUNS}`,
        value: Math.max(...outcomes.map(({ firstFrameMs }) => firstFrameMs ?? Number.NaN)),
        unit: "ms",
      },
      { what: "the same: longest freeze of all runs", value: longest, unit: "ms", goal: { atMost: 2_000 } },
      { what: "the same: share of the link", value: median(outcomes.map(({ share }) => share ?? NaN)), unit: "" },
    ];
  } finally {
    await call.close();
    for (const stop of stops) stop();
  }
}

async function firefoxWatching(machine: Machine, folder: string, site: URL): Promise<Watching> {
  const stops: (() => Promise<void>)[] = [];
  const firefox = await launchFirefox({
    prefix: machine.prefix,
    trusts: join(folder, "ca.pem"),
    preferences: { "dom.securecontext.allowlist": site.hostname },
    async reach(inside) {
      const { url, stop } = await tunnel(machine, inside);
      stops.push(stop);
      return url;
    },
  });
  return {
    async page(url) {
      const page = await firefox.page(url);
      const leave = () => void setTimeout(() => location.replace("about:blank"));
      return { page, close: () => page.evaluate(leave, undefined) };
    },
    async close() {
      await firefox.close();
      for (const stop of stops) await stop();
    },
  };
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
  let viewers = 0;
  return {
    publish: async (page) => page.evaluate(publishClouds, await mint("publisher")),
    watch: async (page) => page.evaluate(watchRoom, await mint(`viewer-${viewers++}`)),
    async stop() {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      child.kill("SIGKILL");
      await child.exited;
    },
  };
};
