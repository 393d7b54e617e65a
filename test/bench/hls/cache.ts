/** nginx in front of the server, with the lines that the guide gives. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { program } from "../../ops/machine.ts";
import { freePort } from "../../ops/proxies.ts";

const GUIDE = join(import.meta.dir, "../../../web/docs/live-streams.md");

export type Cache = { url: string; log(): Answered[]; close(): Promise<void> };
/** The responses of nginx, with their origin and content. */
export type Answered = { path: string; status: number; from: string };

function guideLines(): string {
  const block = /<!-- nginx as a cache -->\n```\w*\n([\s\S]*?)```/.exec(readFileSync(GUIDE, "utf8"))?.[1];
  if (block === undefined) throw new Error("the guide has no lines for nginx");
  return block;
}

export async function startCache(backend: string): Promise<Cache> {
  const binary = await program("nginx", "nginx-light");
  const folder = mkdtempSync(join(tmpdir(), "stoa-bench-nginx-"));
  const port = await freePort();
  mkdirSync(join(folder, "cache"));
  const site = guideLines()
    .replace("/var/cache/nginx/hls", join(folder, "cache"))
    .replace("listen 8080", `listen 127.0.0.1:${port}`)
    .replaceAll("127.0.0.1:7000", new URL(backend).host);
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (name) => `${name}_temp_path ${folder}/${name};`,
  );
  const path = join(folder, "nginx.conf");
  const log = join(folder, "access.log");
  // An operator who starts it as root has to let its workers into a folder that is root's.
  const user = process.getuid?.() === 0 ? "user root;" : "";
  writeFileSync(
    path,
    `daemon off; ${user} worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
    events { worker_connections 4096; }
    http {
      log_format answered '$status $upstream_cache_status $uri';
      access_log ${log} answered;
      ${folders.join(" ")}
      ${site}
    }`,
  );
  const child = Bun.spawn([binary, "-c", path, "-p", folder], { stderr: "inherit" });
  const url = `http://127.0.0.1:${port}`;
  while (!(await fetch(`${url}/health`).catch(() => null))) await Bun.sleep(20);
  return {
    url,
    log: () =>
      readFileSync(log, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => {
          const [status = "", from = "", answered = ""] = line.split(" ");
          return { status: Number(status), from, path: answered };
        }),
    async close() {
      child.kill("SIGTERM");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
