/** The proxy configurations of the operators' guide, with the ports and files of a test. */
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import type { CertificateFiles } from "./certificate.ts";
import { program } from "./machine.ts";

type Where = { folder: string; port: number; backend: string; files: CertificateFiles };

function guideBlock(name: string): string {
  const guide = readFileSync(join(import.meta.dir, "../../web/docs/operate.md"), "utf8");
  const block = new RegExp(`<!-- ${name} -->\n(?:<!-- .* -->\n)*\`\`\`\\w*\n([\\s\\S]*?)\`\`\``).exec(guide)?.[1];
  if (block === undefined) throw new Error(`the guide has no ${name} block`);
  return block;
}

const nginx = (where: Where) => startNginx(where, guideBlock("nginx"));

/** A configuration without WebSocket support. */
export const nginxWithoutUpgrade = (where: Where) =>
  startNginx(where, guideBlock("nginx").replaceAll(/^ *proxy_set_header (?:Upgrade|Connection) .*;\n/gm, ""));

function startNginx({ folder, port, backend, files }: Where, block: string): Promise<Bun.Subprocess> {
  const site = block
    .replace("listen 443 ssl", `listen 127.0.0.1:${port} ssl`)
    .replace("http://127.0.0.1:7000", backend)
    .replace(/ssl_certificate \S+;/, `ssl_certificate ${files.cert};`)
    .replace(/ssl_certificate_key \S+;/, `ssl_certificate_key ${files.key};`);
  return runNginx(folder, site);
}

/** Runs nginx with these lines alone, and all its files in the folder. */
export async function runNginx(folder: string, site: string): Promise<Bun.Subprocess> {
  const binary = await program("nginx", "nginx-light");
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const path = join(folder, "nginx.conf");
  writeFileSync(
    path,
    `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; events {}
    http { access_log off; ${folders.join(" ")} ${site} }`,
  );
  return Bun.spawn([binary, "-c", path, "-p", folder], { stderr: "ignore" });
}

function caddy({ folder, port, backend, files }: Where): Promise<Bun.Subprocess> {
  // Caddy gets its own certificate, but not in a test.
  const site = guideBlock("caddy")
    .replace("rtc.example.com {", `https://localhost:${port} {\n  bind 127.0.0.1\n  tls ${files.cert} ${files.key}`)
    .replace("127.0.0.1:7000", new URL(backend).host);
  return runCaddy(folder, site);
}

export async function runCaddy(folder: string, site: string): Promise<Bun.Subprocess> {
  const binary = await program("caddy");
  const path = join(folder, "Caddyfile");
  writeFileSync(path, `{\n  admin off\n  auto_https disable_redirects\n}\n${site}`);
  const env = { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  return Bun.spawn([binary, "run", "--config", path, "--adapter", "caddyfile"], { env, stderr: "ignore" });
}

export const PROXIES = { nginx, caddy };

export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((listening) => probe.listen(0, "127.0.0.1", listening));
  const { port } = probe.address() as { port: number };
  await new Promise((closed) => probe.close(closed));
  return port;
}
