import { expect, test } from "bun:test";
import { join } from "node:path";
import { floorOf, tooNew } from "./browser-floor.ts";

/** APIs that the SDK uses only where they exist. */
const GUARDED = [
  // `connect` rejects where frames cannot be encrypted.
  "RTCRtpScriptTransform: chrome",
  // Without `navigator.connection`, the `online` event reports another network.
  "connection: firefox",
  "connection: safari",
  "connection: safari_ios",
  // Without `element.setSinkId`, the system chooses the audio output.
  "setSinkId: safari",
  "setSinkId: safari_ios",
  // The SDK checks for `getDisplayMedia`, because browsers on phones cannot share the screen.
  "getDisplayMedia: safari_ios",
  // Without them, AV1 with spatial layers is not shown.
  ...["getHeaderExtensionsToNegotiate", "setHeaderExtensionsToNegotiate"].flatMap((name) =>
    ["firefox", "safari", "safari_ios"].map((browser) => `${name}: ${browser}`),
  ),
  // These properties are only set, which has no effect where they are unknown.
  "contentHint: firefox",
  "playsInline: firefox",
];

/** Fields of our own records that have the name of a newer API. */
const OUR_OWN = ["destroy", "layers", "limits", "uuid"];

test("[10] the built SDK uses only APIs of Safari on iOS 16.4 and of browsers of the last two years", async () => {
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

test("the check reports newer APIs and accepts older ones", () => {
  expect(tooNew("const later = Promise.withResolvers();")).toContain("withResolvers: safari_ios since 17.4");
  expect(tooNew("Object.groupBy([], String);")).toContain("groupBy: safari_ios since 17.4");
  expect(tooNew("new Set().union(other);")).toContain("union: safari_ios since 17");
  expect(tooNew("[3].at(-1); crypto.randomUUID(); new CompressionStream('gzip');")).toEqual([]);
  expect(() => tooNew("using file = open();")).toThrow();
  expect(Number(floorOf("chrome"))).toBeGreaterThan(120);
});
