import { expect, test } from "bun:test";
import { join } from "node:path";
import { floorOf, tooNew } from "./browser-floor.ts";

/** Used only where the browser has it. */
const GUARDED = [
  // `navigator.connection?.`: where it is missing, `online` tells of another network.
  "connection: firefox",
  "connection: safari",
  "connection: safari_ios",
  // `element.setSinkId?.()`: on a phone the system chooses where sound comes out.
  "setSinkId: safari",
  "setSinkId: safari_ios",
  // Asked for before it is called: no browser of a phone shares its screen.
  "getDisplayMedia: safari_ios",
  // Set and never read: where they mean nothing they do nothing.
  "contentHint: firefox",
  "playsInline: firefox",
];

/** Fields of our own records, which some interface happens to have too. */
const OUR_OWN = ["layers", "limits", "uuid"];

test("[10] the built SDK uses nothing that Safari on iOS 16.4, or any browser of the last two years, does not have", async () => {
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, "../../../web/sdk/index.ts")],
    target: "browser",
    format: "esm",
    minify: true,
  });
  const found = tooNew((await built.outputs[0]?.text()) ?? "");
  const unguarded = found.filter((line) => !GUARDED.includes(line.split(" since")[0] ?? ""));
  expect(unguarded.filter((line) => !OUR_OWN.includes(line.split(":")[0] ?? ""))).toEqual([]);
});

test("the check knows what is too young, and does not mistake what is old", () => {
  expect(tooNew("const later = Promise.withResolvers();")).toContain("withResolvers: safari_ios since 17.4");
  expect(tooNew("Object.groupBy([], String);")).toContain("groupBy: safari_ios since 17.4");
  expect(tooNew("new Set().union(other);")).toContain("union: safari_ios since 17");
  expect(tooNew("[3].at(-1); crypto.randomUUID(); new CompressionStream('gzip');")).toEqual([]);
  expect(() => tooNew("using file = open();")).toThrow();
  expect(Number(floorOf("chrome"))).toBeGreaterThan(120);
});
