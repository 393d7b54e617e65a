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
  expect(
    offenders(
      ({ from, to, external }) =>
        under(from, "sfu") &&
        (external ? /elysia|drizzle|bun:sqlite/.test(to) : !under(to, "sfu", "protocol") && to !== "src/kernel/log.ts"),
    ),
  ).toEqual([]);
});

test("the relay and the edge know neither the database, HTTP's framework nor a feature", () => {
  const small = ["src/kernel/clock.ts", "src/kernel/log.ts", "src/kernel/assets.ts", "src/kernel/addresses.ts"];
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
