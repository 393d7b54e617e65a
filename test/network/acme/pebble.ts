/** Debian's pebble, an independent ACME authority (RFC 8555) on loopback with its own name server. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeCertificate } from "../../ops/certificate.ts";

export type Pebble = {
  directory: string;
  /** To be trusted for the directory itself. */
  ca: string;
  caFile: string;
  /** The root of the certificates that it signs. */
  root(): Promise<string>;
  /** Ends the authority; `start` runs it again at the same address, without any memory of earlier requests. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
};

type Options = {
  tlsPort: number;
  httpPort: number;
  externalKey?: { id: string; hmac: string };
  /** The address to which every name resolves. */
  address?: string;
  /** The address at which it listens. */
  at?: string;
  /** The lifetime of its certificates. */
  lifetimeSeconds?: number;
  /** In front of its command. */
  prefix?: string[];
};

export async function startPebble(options: Options): Promise<Pebble> {
  const {
    tlsPort,
    httpPort,
    externalKey,
    address = "127.0.0.1",
    at = "127.0.0.1",
    lifetimeSeconds,
    prefix = [],
  } = options;
  const folder = mkdtempSync(join(tmpdir(), "stoa-pebble-"));
  const [own, [port = 0, managementPort = 0, dnsPort = 0, dnsManagement = 0]] = await Promise.all([
    makeCertificate(folder, "pebble", at),
    freePorts(4),
  ]);
  const external = externalKey
    ? { externalAccountBindingRequired: true, externalAccountMACKeys: { [externalKey.id]: externalKey.hmac } }
    : {};
  const config = {
    listenAddress: `${at}:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate: own.cert,
    privateKey: own.key,
    httpPort,
    tlsPort,
    ocspResponderURL: "",
    ...external,
    ...(lifetimeSeconds === undefined ? {} : { certificateValidityPeriod: lifetimeSeconds }),
  };
  const file = join(folder, "pebble.json");
  writeFileSync(file, JSON.stringify({ pebble: config }));
  const names = Bun.spawn(
    [
      ...["pebble-challtestsrv", "-defaultIPv4", address, "-defaultIPv6", "", "-http01", "", "-https01", ""],
      ...["-tlsalpn01", "", "-dns01", `127.0.0.1:${dnsPort}`, "-management", `127.0.0.1:${dnsManagement}`],
    ],
    { stdout: "ignore", stderr: "ignore" },
  );
  let authority: Bun.Subprocess | null = null;
  const ca = readFileSync(own.cert, "utf8");
  const directory = `https://${at}:${port}/dir`;

  async function start(): Promise<void> {
    authority = Bun.spawn([...prefix, "pebble", "-config", file, "-dnsserver", `127.0.0.1:${dnsPort}`], {
      // Without the last, a renewal would take up the authorization of the one before and prove nothing.
      env: { ...process.env, PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "20", PEBBLE_AUTHZREUSE: "0" },
      stdout: "ignore",
      stderr: "ignore",
    });
    for (;;) {
      const answer = await fetch(directory, { tls: { ca } }).catch(() => null);
      if (answer?.ok) return;
      await Bun.sleep(20);
    }
  }

  async function stop(): Promise<void> {
    authority?.kill();
    await authority?.exited;
  }

  await start();
  return {
    directory,
    ca,
    caFile: own.cert,
    root: async () => (await fetch(`https://127.0.0.1:${managementPort}/roots/0`, { tls: { ca } })).text(),
    start,
    stop,
    async close() {
      await stop();
      names.kill();
      await names.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise<ReturnType<typeof createServer>>((resolve) => {
          const server = createServer().listen(0, "127.0.0.1", () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
