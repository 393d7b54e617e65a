import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { Glob } from "bun";

const root = join(import.meta.dir, "..");

type Import = { from: string; to: string; external: boolean };

const imports: Import[] = [];
for (const from of new Glob("{src,web}/**/*.{ts,tsx}").scanSync(root)) {
  const source = readFileSync(join(root, from), "utf8");
  // By text, so that type imports count: they are dependencies of the reader too.
  for (const [, path = ""] of source.matchAll(/^(?:(?:import|export)\b[^;"]*? from|import) "([^"]+)";$/gm)) {
    const external = !path.startsWith(".");
    imports.push({ from, to: external ? path : relative(root, join(root, dirname(from), path)), external });
  }
}

const FEATURES = [
  "accounts",
  "projects",
  "audit",
  "rooms",
  "fleet",
  "chat",
  "storage",
  "live-streams",
  "calls",
  "recordings",
  "people",
  "push",
  "observability",
  "usage",
  "webhooks",
];
const under = (path: string, ...folders: string[]) => folders.some((folder) => path.startsWith(`src/${folder}/`));
const offenders = (breaks: (one: Import) => boolean) => imports.filter(breaks).map(({ from, to }) => `${from} → ${to}`);

test("protocol imports only itself and typebox", () => {
  expect(
    offenders(
      ({ from, to, external }) =>
        under(from, "protocol") && (external ? to !== "@sinclair/typebox" : !under(to, "protocol")),
    ),
  ).toEqual([]);
});

test("the kernel knows no feature", () => {
  expect(
    offenders(({ from, to, external }) => under(from, "kernel") && !external && !under(to, "protocol", "kernel")),
  ).toEqual([]);
});

test("features know neither signaling, jobs, the command line nor the composition", () => {
  const above = ["src/app.ts", "src/server.ts", "src/services.ts", "src/main.ts"];
  expect(
    offenders(
      ({ from, to }) => under(from, ...FEATURES) && (under(to, "signaling", "cli", "sfu") || above.includes(to)),
    ),
  ).toEqual([]);
});

test("the packet path knows the protocol alone, neither the database nor HTTP", () => {
  const small = ["src/kernel/calm.ts", "src/kernel/log.ts", "src/kernel/net/socket-options.ts"];
  expect(
    offenders(
      ({ from, to, external }) =>
        under(from, "sfu") &&
        (external ? /elysia|drizzle|bun:sqlite/.test(to) : !under(to, "sfu", "protocol") && !small.includes(to)),
    ),
  ).toEqual([]);
});

/** Folders of the packet path, from the ground up; what stands beside each other does not know each other, but for formats. */
const PACKET_FLOORS = [
  ["rtp"],
  ["rtcp", "srtp", "codec", "sdp"],
  ["bandwidth", "forwarding", "recording", "ice"],
  ["native", "transport", "flight"],
  ["tracks"],
  ["room"],
];

test("within the packet path every arrow points down", () => {
  const floorOf = (path: string) => {
    const folder = path.split("/")[2] ?? "";
    const floor = PACKET_FLOORS.findIndex((folders) => folders.includes(folder));
    return floor < 0 ? PACKET_FLOORS.length : floor;
  };
  const folderOf = (path: string) => path.split("/")[2];
  expect(
    offenders(({ from, to, external }) => {
      if (external || !under(from, "sfu") || !under(to, "sfu") || folderOf(from) === folderOf(to)) return false;
      return (
        floorOf(to) > floorOf(from) || (floorOf(to) === floorOf(from) && floorOf(to) > 1 && from.split("/").length > 3)
      );
    }),
  ).toEqual([]);
});

test("the relay and the edge know neither the database, HTTP's framework nor a feature", () => {
  const names = ["clock", "timers", "calm", "log", "assets", "addresses", "net/socket-options", "net/inner-way"];
  const small = names.map((name) => `src/kernel/${name}.ts`);
  expect(
    offenders(({ from, to, external }) => {
      if (!under(from, "turn", "edge")) return false;
      if (external) return /elysia|drizzle|bun:sqlite/.test(to);
      const floor = under(from, "edge") ? ["edge", "turn", "protocol"] : ["turn", "protocol"];
      return !under(to, ...floor) && !small.includes(to);
    }),
  ).toEqual([]);
});

test("web imports only the protocol, and the type of the app", () => {
  expect(
    offenders(
      ({ from, to, external }) =>
        from.startsWith("web/") && !external && to.startsWith("src/") && !under(to, "protocol") && to !== "src/app.ts",
    ),
  ).toEqual([]);
});

test("services know no HTTP framework, routes know no database", () => {
  expect(offenders(({ from, to }) => from.endsWith(".service.ts") && to.startsWith("elysia"))).toEqual([]);
  expect(offenders(({ from, to }) => /routes\.ts$/.test(from) && to.startsWith("drizzle"))).toEqual([]);
});

test("rooms and chat do not know live streams", () => {
  expect(offenders(({ from, to }) => under(from, "rooms", "chat", "fleet") && under(to, "live-streams"))).toEqual([]);
});

test("jobs are known by the server alone", () => {
  expect(offenders(({ from, to }) => under(to, "jobs") && !under(from, "jobs") && from !== "src/server.ts")).toEqual(
    [],
  );
});

/** Circles that are still there. The list only shrinks: one that is gone must be taken out. */
const KNOWN_CIRCLES: string[][] = [];

test("no file imports itself through others", () => {
  expect(circles()).toEqual(KNOWN_CIRCLES);
});

const FILES_IN_A_FOLDER = 22;

test("a folder can be taken in at a glance", () => {
  const sizes = new Map<string, number>();
  for (const file of new Glob("{src,web}/**/*.{ts,tsx}").scanSync(root)) {
    sizes.set(dirname(file), (sizes.get(dirname(file)) ?? 0) + 1);
  }
  const tooLarge = [...sizes].filter(([, size]) => size > FILES_IN_A_FOLDER);
  expect(tooLarge).toEqual([]);
});

/** Files that reach each other, by Tarjan's algorithm. */
function circles(): string[][] {
  const targets = new Map<string, string[]>();
  for (const { from, to, external } of imports) {
    if (!external && from.startsWith("src/")) targets.set(from, [...(targets.get(from) ?? []), to]);
  }
  const order = new Map<string, number>();
  const open: string[] = [];
  const found: string[][] = [];

  function visit(file: string): number {
    const index = order.size;
    order.set(file, index);
    open.push(file);
    let low = index;
    for (const to of targets.get(file) ?? []) {
      const seen = order.get(to);
      if (seen === undefined) low = Math.min(low, visit(to));
      else if (open.includes(to)) low = Math.min(low, seen);
    }
    if (low === index) {
      const circle = open.splice(open.indexOf(file)).sort();
      if (circle.length > 1) found.push(circle);
    }
    return low;
  }

  for (const file of targets.keys()) if (!order.has(file)) visit(file);
  return found.sort();
}
