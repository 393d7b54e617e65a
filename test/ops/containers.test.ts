// needs: golang-go golang-github-masterminds-sprig-dev
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../src/kernel/config/index.ts";
import { VARIABLE_NAMES } from "../../src/kernel/config/variables.ts";
import { ROOT } from "../cli/stoa.ts";
import { GO_CACHE } from "../harness/go.ts";
import { prepareData, type Served, served } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-containers-"));
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
let server: Served;

beforeAll(async () => {
  await prepareData(join(work, "data"));
  server = await served(join(work, "data"));
}, 60_000);
afterAll(async () => {
  await server.stop("SIGKILL");
  rmSync(work, { recursive: true, force: true });
});

test("the image's health check succeeds with a server and fails without", () => {
  const command = /^HEALTHCHECK .*\\\n +CMD (.+)$/m.exec(read("bin/Containerfile"))?.[1] ?? "";
  const [bash = "", ...args] = JSON.parse(command) as string[];
  const check = (port: string) =>
    Bun.spawnSync([bash, ...args], { env: { PATH: "/usr/bin:/bin", PORT: port } }).exitCode;
  expect(check(new URL(server.url).port)).toBe(0);
  expect(check("1")).not.toBe(0);
});

test("the compose file has the limits of the systemd unit, valid settings, and is the one in the guide", () => {
  const text = read("bin/compose.yaml");
  const { services, volumes } = Bun.YAML.parse(text) as {
    services: { stoa: Record<string, unknown> & { environment: Record<string, string>; ulimits: object } };
    volumes: object;
  };
  const unit = read("install.sh");
  const ofUnit = (name: string) => Number(new RegExp(`^${name}=(\\d+)$`, "m").exec(unit)?.[1]);
  expect(services.stoa.ulimits).toEqual({ nofile: ofUnit("LimitNOFILE"), core: ofUnit("LimitCORE") });
  expect(services.stoa.stop_grace_period).toBe(`${ofUnit("TimeoutStopSec")}s`);
  expect(Object.keys(volumes)).toEqual(["stoa"]);
  expect(() => loadConfig({ env: services.stoa.environment })).not.toThrow();
  const guide = read("web/docs/containers.md");
  expect(guide).toContain(
    text
      .split("\n")
      .filter((line) => !line.startsWith("#"))
      .join("\n")
      .trim(),
  );
});

type Manifest = { kind: string; metadata: { name: string }; spec: Record<string, never> };
type Container = {
  args: string[];
  env: { name: string; value?: string }[];
  readinessProbe: { httpGet: { path: string } };
  livenessProbe: { httpGet: { path: string } };
};
type PodSpec = { hostNetwork?: boolean; nodeSelector: object; containers: Container[] };

/** Helm is not in Debian, and its engine is: Go's templates with Sprig. */
function render(changes: (values: Record<string, Record<string, unknown>>) => void = () => {}): Manifest[] {
  const values = Bun.YAML.parse(read("bin/helm/values.yaml")) as Record<string, Record<string, unknown>>;
  changes(values);
  const chart = { Values: values, Release: { Name: "stoa", Namespace: "rtc" } };
  const go = Bun.spawnSync(["go", "run", join(import.meta.dir, "render_chart.go"), join(ROOT, "bin/helm")], {
    env: { PATH: process.env.PATH, GO111MODULE: "off", GOPATH: "/usr/share/gocode", GOCACHE: GO_CACHE },
    stdin: Buffer.from(JSON.stringify(chart)),
  });
  if (go.exitCode !== 0) throw new Error(go.stderr.toString());
  return (Bun.YAML.parse(go.stdout.toString()) as (Manifest | null)[]).filter((one) => one !== null);
}

function podOf(manifest: Manifest | undefined): PodSpec {
  if (manifest === undefined) throw new Error("the chart has no such part");
  return (manifest.spec as unknown as { template: { spec: PodSpec } }).template.spec;
}

test("the chart renders servers, media nodes on the host network, and valid settings", () => {
  const manifests = render();
  expect(manifests.map(({ kind }) => kind).sort()).toEqual([
    ...["DaemonSet", "Ingress", "PodDisruptionBudget", "Service", "Service", "StatefulSet"],
  ]);
  const servers = podOf(manifests.find(({ kind }) => kind === "StatefulSet"));
  const nodes = podOf(manifests.find(({ kind }) => kind === "DaemonSet"));
  expect(nodes).toMatchObject({ hostNetwork: true, nodeSelector: { "stoa/media": "true" } });
  expect(servers.hostNetwork).toBeUndefined();
  for (const [pod, command] of [
    [servers, "serve"],
    [nodes, "node"],
  ] as const) {
    const [container] = pod.containers;
    expect(container).toMatchObject({
      args: [command],
      readinessProbe: { httpGet: { path: "/readyz" } },
      livenessProbe: { httpGet: { path: "/healthz" } },
    });
    const own = (container?.env ?? []).filter(({ name }) => !["POD_NAME", "HOST_IP"].includes(name));
    expect(own.filter(({ name }) => !VARIABLE_NAMES.includes(name as never))).toEqual([]);
    const set = own.filter(({ value }) => value !== undefined);
    const env = Object.fromEntries(set.map(({ name, value }) => [name, value?.replace(/\$\(\w+\)/, "10.0.0.1") ?? ""]));
    const secret = { STOA_SECRET: "x".repeat(32), COMMIT_LOG_URL: "postgres://stoa:password@postgres:5432/stoa" };
    expect(() => loadConfig({ env: command === "serve" ? { ...env, ...secret } : env })).not.toThrow();
  }
}, 120_000);

test("settings of the chart reach the pods, and parts can be left out", () => {
  const manifests = render((values) => {
    Object.assign(values.server ?? {}, { env: { BACKUP_KEEP: 3 }, replicas: 3 });
    Object.assign(values.node ?? {}, { enabled: false });
    Object.assign(values.ingress ?? {}, { enabled: false });
  });
  expect(manifests.map(({ kind }) => kind)).not.toContain("DaemonSet");
  expect(manifests.map(({ kind }) => kind)).not.toContain("Ingress");
  const servers = manifests.find(({ kind }) => kind === "StatefulSet");
  expect(servers?.spec).toMatchObject({ replicas: 3 });
  expect(podOf(servers).containers[0]?.env).toContainEqual({ name: "BACKUP_KEEP", value: "3" });
}, 120_000);
