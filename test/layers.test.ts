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

/** Floors of src from the ground up; what stands on one floor does not import its neighbour. */
const FLOORS = [
  ["protocol"],
  ["kernel"],
  ["sfu"],
  ["network", "rtc-client"],
  ["nodes"],
  ["features"],
  ["gateways"],
  ["services.ts"],
  ["ops"],
  ["cluster"],
  ["app.ts"],
  ["server.ts"],
  ["upgrade"],
  ["cli"],
  ["main.ts"],
];

const under = (path: string, ...folders: string[]) => folders.some((folder) => path.startsWith(`src/${folder}/`));
const offenders = (breaks: (one: Import) => boolean) => imports.filter(breaks).map(({ from, to }) => `${from} → ${to}`);

test("every import of src points to a lower layer, and every top-level folder belongs to a layer", () => {
  const partOf = (path: string) => path.split("/")[1] ?? "";
  const floorOf = (path: string) => FLOORS.findIndex((parts) => parts.includes(partOf(path)));
  const inside = imports.filter(({ from, external }) => !external && from.startsWith("src/"));
  expect(inside.filter(({ from }) => floorOf(from) < 0).map(({ from }) => from)).toEqual([]);
  expect(
    offenders(
      ({ from, to, external }) =>
        !external && from.startsWith("src/") && partOf(from) !== partOf(to) && floorOf(to) >= floorOf(from),
    ),
  ).toEqual([]);
});

test("protocol imports only itself and typebox", () => {
  expect(
    offenders(
      ({ from, to, external }) =>
        under(from, "protocol") && (external ? to !== "@sinclair/typebox" : !under(to, "protocol")),
    ),
  ).toEqual([]);
});

test("the packet path knows the protocol alone, neither the database nor HTTP", () => {
  const small = ["scheduling/idle", "log", "net/socket-options", "net/impairment"].map(
    (name) => `src/kernel/${name}.ts`,
  );
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
  ["wire"],
  ["werift", "bandwidth", "forwarding", "recording"],
  ["fast-path"],
  ["transport", "flight"],
  ["tracks"],
  ["room"],
  ["relay"],
  ["engine.ts", "ticker.ts", "thread-load.ts", "worker-protocol.ts"],
  ["warm-up"],
  ["worker.ts"],
];

test("within the packet path every import points down", () => {
  const folderOf = (path: string) => path.split("/")[2] ?? "";
  const floorOf = (path: string) => PACKET_FLOORS.findIndex((folders) => folders.includes(folderOf(path)));
  expect(
    offenders(({ from, to, external }) => {
      if (external || !under(from, "sfu") || !under(to, "sfu") || folderOf(from) === folderOf(to)) return false;
      return (
        floorOf(from) < 0 ||
        floorOf(to) > floorOf(from) ||
        (floorOf(to) === floorOf(from) && !from.endsWith("/engine.ts"))
      );
    }),
  ).toEqual([]);
});

test("the network and the WebRTC client know neither the database, HTTP's framework nor a feature", () => {
  expect(
    offenders(
      ({ from, to, external }) =>
        under(from, "network", "rtc-client") && external && /elysia|drizzle|bun:sqlite/.test(to),
    ),
  ).toEqual([]);
  const ofSfu = ["sfu/wire", "sfu/werift"];
  expect(offenders(({ from, to }) => under(from, "rtc-client") && under(to, "sfu") && !under(to, ...ofSfu))).toEqual(
    [],
  );
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
  expect(
    offenders(({ from, to }) => under(from, "features/rooms", "features/chat") && under(to, "features/live-streams")),
  ).toEqual([]);
});

test("no file imports itself through others", () => {
  expect(circles()).toEqual([]);
});

/** Files that reach each other, by Tarjan's algorithm. */
function circles(): string[][] {
  const targets = new Map<string, string[]>();
  for (const { from, to, external } of imports) {
    if (!external) targets.set(from, [...(targets.get(from) ?? []), to]);
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
