/** vps: a Debian booted by systemd, from nothing to https and a relayed call by the guide's three lines, and an upgrade during that call. `bin/bench vps [BINARY] [NEWER] [SYSTEM]` */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import type { Check } from "../../src/ops/doctor/check.ts";
import { createApi } from "../../src/ops/load-test/api.ts";
import { ROOT } from "../cli/stoa.ts";
import { startPebble } from "../network/acme/pebble.ts";
import { issue } from "../ops/certificate.ts";
import { program } from "../ops/machine.ts";
import { DOMAIN } from "../ops/one-port.ts";
import { openRelayedCall } from "./edge/relayed-call.ts";
import { type Measured, report } from "./harness/report.ts";

const [binary = join(ROOT, "dist/stoa"), newer = binary, givenSystem] = process.argv.slice(2);
const RELEASES = "releases.example.com";
const PATIENCE_MS = 60_000;
/** Other ports than those of the machine, whose network the container shares. */
const [PORT, MEDIA_PORT] = [17_000, 17_001];
const GUIDE = /```sh\n(curl -fsSLO.*?)```/s;
const UPGRADE = /```sh\n(sh install\.sh)\b/;
/** For clients to notice what the upgrade may have ended. */
const AFTER_UPGRADE_MS = 5_000;
/** The checks of the doctor that a server with DOMAIN must pass. */
const EXAMINED: readonly string[] = [
  "domain",
  "port-80",
  "certificate",
  "turn",
  "turn-closed",
] satisfies Check["name"][];
const PACKAGES = "systemd,systemd-sysv,dbus,curl,ca-certificates,openssl";

for (const one of [binary, newer]) if (!existsSync(one)) throw new Error(`there is no ${one}: make it with bin/build`);
await program("systemd-nspawn", "systemd-container");
await program("mmdebstrap");
await program("pebble");
const work = mkdtempSync(join(tmpdir(), "stoa-vps-"));
const system = givenSystem ?? join(work, "debian");
const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true })];
const figures: Measured[] = [];

/** A folder with a release, as it would be on a web server. */
async function makeRelease(folder: string, program: string): Promise<string> {
  mkdirSync(folder);
  const file = `stoa-linux-${process.arch}`;
  cpSync(program, join(folder, file));
  cpSync(join(ROOT, "install.sh"), join(folder, "install.sh"));
  await $`sha256sum ${file} > checksums.txt`.cwd(folder).quiet();
  return folder;
}

/** Provides what the Internet would: a release site, names, and an authority that every client trusts. */
async function prepareWorld() {
  const release = await makeRelease(join(work, "release"), binary);
  const { cert, key, ca } = await issue(work, [RELEASES]);
  const fetch = (request: Request) =>
    new Response(Bun.file(join(release, new URL(request.url).pathname.replace(/^\/stoa\//, ""))));
  const tls = { cert: readFileSync(cert), key: readFileSync(key) };
  const site = Bun.serve({ hostname: "127.0.0.2", port: 443, tls, fetch });
  stops.push(() => site.stop(true));
  const pebble = await startPebble({ tlsPort: 443, httpPort: 80 });
  stops.push(() => pebble.close());
  mkdirSync(join(system, "etc/stoa"), { recursive: true });
  await $`install -m 644 ${pebble.caFile} ${join(system, "etc/stoa/authority.pem")}`.quiet();
  const authority = `ACME_DIRECTORY=${pebble.directory}\nACME_CA=/etc/stoa/authority.pem\n`;
  const place = `PORT=${PORT}\nMEDIA_UDP_PORT=${MEDIA_PORT}\nPUBLIC_IP=127.0.0.1\n`;
  writeFileSync(join(system, "etc/stoa/environment"), authority + place);
  writeFileSync(join(system, "etc/hosts"), `127.0.0.1 localhost ${DOMAIN}\n127.0.0.2 ${RELEASES}\n`);
  cpSync(ca, join(system, "usr/local/share/ca-certificates/house.crt"));
  await $`chroot ${system} update-ca-certificates`.quiet();
  return { site, pebble };
}

/** Boots it, and answers how a command is run there. */
async function boot() {
  const options = ["--boot", "--register=no", "--keep-unit", "--quiet", "--resolv-conf=off", "-D", system];
  const machine = Bun.spawn(["systemd-nspawn", ...options], { stdin: "ignore", stdout: "ignore", stderr: "ignore" });
  stops.push(async () => {
    machine.kill("SIGTERM");
    await Promise.race([machine.exited, Bun.sleep(10_000)]);
    machine.kill("SIGKILL");
    await machine.exited;
  });
  const inside = async (command: string): Promise<string> => {
    const { stdout: leader } = await $`pgrep -P ${machine.pid} -x systemd`.quiet();
    const clean = ["env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"];
    return $`nsenter --all --target ${leader.toString().trim()} ${clean} sh -c ${command}`.quiet().text();
  };
  await until(async () => /running|degraded/.test(await inside("systemctl is-system-running || true")));
  return inside;
}

/** Installs the newer release over the running service, by the line of the guide on upgrades. */
async function upgrade(inside: (command: string) => Promise<string>, url: string): Promise<void> {
  await makeRelease(join(system, "root/newer"), newer);
  const mainProcess = () => inside("systemctl show stoa --property MainPID --value");
  const before = await mainProcess();
  const [line = ""] = UPGRADE.exec(readFileSync(join(ROOT, "web/docs/upgrade.md"), "utf8"))?.slice(1) ?? [];
  const startedAt = performance.now();
  console.log(`# ${line}\n${await inside(`cd /root && STOA_BASE_URL=/root/newer ${line} 2>&1`)}`);
  const seconds = (performance.now() - startedAt) / 1_000;
  const { version } = (await (await fetch(`${url}/healthz`)).json()) as { version: string };
  const isNewer = (await inside("stoa version")).startsWith(`stoa ${version} `);
  const isActive = (await inside("systemctl is-active stoa")).trim() === "active";
  const faults = [isNewer, isActive, (await mainProcess()) !== before].filter((holds) => !holds).length;
  console.log(await inside("systemctl status stoa --no-pager | head -12"));
  figures.push({ what: "upgrade by install.sh", value: seconds, unit: "s" });
  figures.push({ what: "faults of the service after it", value: faults, unit: "", goal: { atMost: 0 } });
}

/** The result of the doctor there, with the settings of the service. */
async function examined(inside: (command: string) => Promise<string>, roots: string): Promise<Check[]> {
  writeFileSync(join(system, "etc/stoa/roots.pem"), roots);
  const settings = "set -a; . /etc/stoa/environment; NODE_EXTRA_CA_CERTS=/etc/stoa/roots.pem; set +a";
  const doctor = "runuser -u stoa -- stoa doctor --json --data-dir /var/lib/stoa || true";
  return JSON.parse(await inside(`cd / && ${settings} && ${doctor}`));
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await Bun.sleep(200)) {
    if (await holds().catch(() => false)) return;
  }
  throw new Error(`not within ${PATIENCE_MS} ms: ${holds}`);
}

try {
  if (!givenSystem) await $`mmdebstrap --variant=minbase --include=${PACKAGES} bookworm ${system}`.quiet();
  const { site, pebble } = await prepareWorld();
  const inside = await boot();
  const lines =
    GUIDE.exec(readFileSync(join(ROOT, "web/docs/one-port.md"), "utf8"))?.[1]
      ?.trim()
      .split("\n") ?? [];
  const startedAt = performance.now();
  const note = (what: string, goal?: Measured["goal"]) => {
    const value = (performance.now() - startedAt) / 1_000;
    figures.push({ what, value, unit: "s", ...(goal ? { goal } : {}) });
  };
  for (const line of lines) {
    // At the same port as the server will be.
    if (line.startsWith("systemctl")) await site.stop(true);
    console.log(`# ${line}\n${await inside(`cd /root && ${line} 2>&1`)}`);
    note(line.split(" ").slice(0, 3).join(" "));
  }
  const ca = await pebble.root();
  const options = { headers: { host: DOMAIN }, tls: { ca, serverName: DOMAIN } } as RequestInit;
  await until(async () => (await fetch("https://127.0.0.1/readyz", options)).ok);
  note("https that clients trust", { atMost: 30 });
  console.log(await inside("systemctl status stoa --no-pager | head -6; ls -l /var/lib/stoa/acme"));
  const stoa = "runuser -u stoa -- stoa";
  const data = "--data-dir /var/lib/stoa";
  await inside(`cd / && echo a long password | ${stoa} admin create operator@example.com ${data}`);
  const apiKey = (
    await inside(`cd / && ${stoa} keys create --project first --create-project --name vps ${data}`)
  ).trim();
  const checks = await examined(inside, ca);
  console.log(checks.map(({ name, status, detail }) => `${status} ${name}: ${detail}`).join("\n"));
  const passed = checks.filter(({ name, status }) => EXAMINED.includes(name) && status === "pass").length;
  figures.push({ what: "checks of the doctor that pass", value: passed, unit: "", goal: { atLeast: EXAMINED.length } });
  const url = `http://127.0.0.1:${PORT}`;
  const call = await openRelayedCall({ api: createApi(url, apiKey), url, edgePort: 443 });
  note("an account, a key, a room, and a call through the relay", { atMost: 300 });
  await upgrade(inside, url);
  await Bun.sleep(AFTER_UPGRADE_MS);
  const { longestGapMs } = await call.end();
  figures.push({ what: "longest gap of the call", value: longestGapMs, unit: "ms", goal: { atMost: 250 } });
} finally {
  for (const stop of stops.reverse()) await stop();
}
report("vps", figures);
process.exit();
