/** A whole server with an edge, as a process of its own, on loopback. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createApi } from "../../../src/ops/load-test/api.ts";
import { FROM_SOURCE, startStoa } from "../../cli/stoa.ts";
import { freePorts } from "../../network/acme/pebble.ts";
import { makeCertificate } from "../../ops/certificate.ts";
import { keyPath, prepareData } from "../../ops/served.ts";

export type EdgeServer = {
  pid: number;
  folder: string;
  /** Past the edge, without TLS; where there is no edge, with it. */
  url: string;
  edgePort: number;
  apiKey: string;
  certificate: { cert: string; key: string };
  api: ReturnType<typeof createApi>;
  /** Its log, whether it is running, and whom its edge refused: for a bench that ends unexpectedly. */
  testimony(): Promise<string>;
  stop(): Promise<void>;
};

type Options = {
  /** Any free one, unless given. */
  edgePort?: number;
  /** In place of a certificate from files. */
  settings?: string[];
  /** Without an edge: the HTTP server itself ends TLS. */
  endsTls?: boolean;
};

const ENDS_TLS = join(import.meta.dir, "ends-tls.ts");

export async function startEdgeServer(options: Options = {}): Promise<EdgeServer> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-bench-edge-"));
  const dataDir = join(folder, "data");
  await prepareData(dataDir);
  const certificate = await makeCertificate(folder, "localhost");
  const [port = 0, free = 0] = await freePorts(2);
  const { edgePort = free, settings, endsTls = false } = options;
  const place = ["--port", String(port), ...(endsTls ? [] : ["--edge-port", String(edgePort)])];
  const files = endsTls ? [] : ["--tls-cert", certificate.cert, "--tls-key", certificate.key];
  const tls = settings ?? [...files, "--public-url", `https://localhost:${endsTls ? port : edgePort}`];
  const media = ["--media-udp-port", "0", "--media-workers", "1", "--public-ip", "127.0.0.1"];
  const generous = [
    "--turn-max-allocations",
    "200",
    "--signaling-max-connections-per-window",
    "1000",
    "--rate-limit-rtc-tokens",
    "10000",
  ];
  const [bun = "", ...source] = FROM_SOURCE;
  const program = endsTls ? [bun, "--preload", ENDS_TLS, ...source] : [bun, ...source];
  const command = [...program, "serve", "--data-dir", dataDir, ...place, ...tls, ...media, ...generous];
  const env = { BENCH_TLS_CERT: certificate.cert, BENCH_TLS_KEY: certificate.key };
  const { child } = await startStoa([...command, "--log-level", "warn"], { env });
  let logged = "";
  const listen = async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) logged += text;
  };
  void listen();
  const apiKey = readFileSync(keyPath(dataDir), "utf8").trim();
  const url = `${endsTls ? "https" : "http"}://127.0.0.1:${port}`;
  return {
    pid: child.pid,
    folder,
    url,
    edgePort,
    apiKey,
    certificate,
    api: createApi(url, apiKey),
    async testimony() {
      const metrics = await fetch(`${url}/metrics`)
        .then((answer) => answer.text())
        .catch(String);
      const counted = metrics.split("\n").filter((line) => line.startsWith("stoa_edge_"));
      return [
        `ended: ${child.exitCode ?? child.signalCode ?? "no"}`,
        ...(counted.length > 0 ? counted : [metrics]),
        logged,
      ].join("\n");
    },
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
