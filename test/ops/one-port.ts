/** A server with one name, and clients behind restrictive networks. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Stoa } from "../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { launchFirefox } from "../e2e/sdk/firefox.ts";
import type { Scripted } from "../e2e/sdk/scripted.ts";
import { serveSite } from "../e2e/sdk/stage.ts";
import { tunnel } from "../foreign/clients.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { type Lan, type Machine, openLan } from "../harness/namespaces.ts";
import { type IssuedCertificate, issue } from "./certificate.ts";
import { program } from "./machine.ts";
import { keyPath, prepareData } from "./served.ts";

export const DOMAIN = "rtc.example.com";
export const NODE_DOMAIN = "node.example.com";
/** The site of a developer, whose page loads the SDK from the server. */
const SITE_DOMAIN = "www.example.com";
const PROXY_PORT = 3128;
export const FLEET_SECRET = "a-secret-of-the-fleet";

export type BrowserName = "chromium" | "firefox";
export type Behind = "narrow" | "proxied";

export type OnePort = {
  lan: Lan<Behind | "proxy" | "site" | "server" | "node">;
  stoa: Stoa;
  /** A certificate for all names of the test, signed by its own authority. */
  certificate: IssuedCertificate;
  server: Bun.Subprocess;
  /** Only tcp 443 leaves `narrow`, and only requests through the proxy leave `proxied`. */
  page(browser: BrowserName, behind: Behind): Promise<Scripted>;
  /** Processes that are ended with the test. */
  keep(child: Bun.Subprocess): void;
  close(): Promise<void>;
};

export async function openOnePort(settings: string[] = []): Promise<OnePort> {
  await program("chromium");
  await program("firefox-esr");
  await program("certutil", "libnss3-tools");
  const work = mkdtempSync(join(tmpdir(), "stoa-one-port-"));
  const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true })];
  const lan = await openLan("narrow", "proxied", "proxy", "site", "server", "node");
  stops.push(() => lan.close());
  const { narrow, proxied, proxy, site, server } = lan.machines;
  const names = [
    `${server.address} ${DOMAIN}`,
    `${lan.machines.node.address} ${NODE_DOMAIN}`,
    `${site.address} ${SITE_DOMAIN}`,
  ];
  for (const machine of Object.values(lan.machines)) stops.push(nameHosts(machine, names));
  // This process drives the browsers; the server does not listen at its address.
  const driver = ["oifname lo accept", `ip daddr ${lan.address} accept`];
  await narrow.keepIn(...driver, "tcp dport 443 accept", "drop");
  await proxied.keepIn(...driver, `ip daddr ${proxy.address} tcp dport ${PROXY_PORT} accept`, "drop");

  const certificate = await issue(work, [DOMAIN, NODE_DOMAIN, SITE_DOMAIN]);
  const { cert, key, ca } = certificate;

  const keep = (child: Bun.Subprocess) => {
    stops.push(async () => {
      child.kill("SIGKILL");
      await child.exited;
    });
  };
  const script = async (machine: Machine, name: string, ...given: string[]) => {
    const command = [...machine.prefix, process.execPath, join(import.meta.dir, name), ...given];
    const child = Bun.spawn(command, { stdout: "pipe", stderr: "inherit" });
    keep(child);
    await child.stdout.getReader().read();
  };
  await script(proxy, "connect-proxy.ts", proxy.address, String(PROXY_PORT));
  const built = await serveSite();
  const sdk = join(work, "sdk.js");
  await Bun.write(sdk, await fetch(`${built.url.origin}/sdk.js`));
  await built.stop(true);
  await script(site, "secure-site.ts", site.address, cert, key, sdk);

  const dataDir = join(work, "data");
  await prepareData(dataDir);
  const media = ["--media-udp-port", "7001", "--media-workers", "2", "--public-ip", server.address];
  const domain = ["--domain", DOMAIN, "--tls-cert", cert, "--tls-key", key];
  const command = [...server.prefix, ...PROGRAM, "serve", "--data-dir", dataDir, ...domain, ...media, ...settings];
  const env = { SFU_REGISTRATION_SECRET: FLEET_SECRET, NODE_EXTRA_CA_CERTS: ca };
  const { child } = await startStoa(command, { env });
  keep(child);
  const apiKey = readFileSync(keyPath(dataDir), "utf8").trim();
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  stops.push(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);

  const launched = new Map<string, Promise<(url: string) => Promise<Scripted>>>();
  const launch = (browser: BrowserName, behind: Behind) =>
    browser === "chromium" ? launchChromium(lan.machines[behind], behind) : launchFox(lan.machines[behind], behind);

  async function launchChromium(machine: Machine, behind: Behind) {
    const way = behind === "proxied" ? [`--proxy-server=http://${proxy.address}:${PROXY_PORT}`] : [];
    const browser = await chromium.launch({
      ...CHROMIUM,
      executablePath: machine.wrapper(CHROMIUM.executablePath, work),
      args: [...CHROMIUM.args, "--ignore-certificate-errors", ...way],
    });
    stops.push(() => browser.close());
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    return async (url: string) => {
      const page = await context.newPage();
      await page.goto(url);
      return page;
    };
  }

  async function launchFox(machine: Machine, behind: Behind) {
    const way = { "network.proxy.type": 1, "network.proxy.ssl": proxy.address, "network.proxy.ssl_port": PROXY_PORT };
    const firefox = await launchFirefox({
      prefix: machine.prefix,
      trusts: ca,
      preferences: behind === "proxied" ? way : {},
      async reach(inside) {
        const { url, stop } = await tunnel(machine, inside);
        stops.push(stop);
        return url;
      },
    });
    stops.push(() => firefox.close());
    return (url: string) => firefox.page(url);
  }

  return {
    lan,
    stoa: new Stoa({ url: `https://${server.address}`, apiKey }),
    certificate,
    server: child,
    async page(browser, behind) {
      const key = `${browser} ${behind}`;
      const open = launched.get(key) ?? launch(browser, behind);
      launched.set(key, open);
      return (await open)(`https://${SITE_DOMAIN}/`);
    },
    keep,
    async close() {
      for (const stop of stops.reverse()) await stop();
    },
  };
}

/** A network namespace can have its own hosts file. */
export function nameHosts({ prefix }: Machine, names: string[]): () => void {
  const folder = `/etc/netns/${prefix[3]}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "hosts"), `127.0.0.1 localhost\n${names.join("\n")}\n`);
  return () => rmSync(folder, { recursive: true, force: true });
}
