/** The load balancers of the guide, in its own words, with a test's addresses in them and without TLS. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { program } from "../ops/machine.ts";
import { freePort, runCaddy, runNginx } from "../ops/proxies.ts";
import { blocksOf } from "../web/docs/blocks.ts";

const GUIDE = "web/docs/standby.md";

/** How each balancer is started with the lines of the guide. */
const BALANCERS: Record<string, (lines: string, port: number, folder: string) => Promise<Bun.Subprocess>> = {
  haproxy: async (lines, port, folder) => {
    const path = join(folder, "haproxy.cfg");
    writeFileSync(path, lines.replace(/bind .*/, `bind 127.0.0.1:${port}`));
    return Bun.spawn([await program("haproxy"), "-db", "-f", path], { stdout: "ignore", stderr: "ignore" });
  },
  nginx: (lines, port, folder) =>
    runNginx(
      folder,
      lines.replace("listen 443 ssl", `listen 127.0.0.1:${port}`).replaceAll(/^ *ssl_certificate.*\n/gm, ""),
    ),
  caddy: (lines, port, folder) => runCaddy(folder, lines.replace("rtc.example.com {", `http://127.0.0.1:${port} {`)),
};

export type GuideBalancer = { name: string; url: string; stop(): Promise<void> };

/** All of the guide's, each in front of the same two servers. */
export async function startBalancers(parent: string, servers: readonly [string, string]): Promise<GuideBalancer[]> {
  const [one, two] = servers.map((url) => new URL(url).host) as [string, string];
  const started: GuideBalancer[] = [];
  for (const [name, start] of Object.entries(BALANCERS)) {
    const block = blocksOf(GUIDE).find(({ language }) => language === name);
    if (block === undefined) throw new Error(`${GUIDE} has no lines for ${name}`);
    const folder = join(parent, name);
    mkdirSync(folder);
    const port = await freePort();
    const lines = block.code.replaceAll("10.0.0.1:7000", one).replaceAll("10.0.0.2:7000", two);
    const child = await start(lines, port, folder);
    const stop = async () => {
      child.kill();
      await child.exited;
    };
    started.push({ name, url: `http://127.0.0.1:${port}`, stop });
  }
  return started;
}
