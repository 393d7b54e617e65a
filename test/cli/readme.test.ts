import { expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { readGuides } from "../../src/cli/manual/guides.ts";
import { documentConfig } from "../../src/kernel/config/document.ts";
import { VARIABLE_NAMES } from "../../src/kernel/config/index.ts";
import { blockFor } from "../web/docs/blocks.ts";
import { ROOT } from "./stoa.ts";

const README = readFileSync(join(ROOT, "README.md"), "utf8");

test("the README is short, and its links and pictures exist", () => {
  expect(Buffer.byteLength(README)).toBeLessThanOrEqual(8 * 1024);
  for (const [, path = ""] of README.matchAll(/\]\(([^)#]+)\)/g))
    expect([path, existsSync(join(ROOT, path))]).toEqual([path, true]);
  for (const [, path = ""] of README.matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)) {
    expect(statSync(join(ROOT, path)).size).toBeLessThan(200_000);
  }
});

test("the first call of the README is that of the guide", () => {
  for (const file of ["install", "join.mjs", "call.html"]) {
    expect(blockFor("README.md", file)).toBe(blockFor("web/docs/start.md", file));
  }
});

test("the figures of the README are those of the guide", () => {
  const figures = readFileSync(join(ROOT, "web/docs/figures.md"), "utf8");
  const measured = (what: string) => Number(new RegExp(`\\| ${what} +\\| +([\\d.]+)`).exec(figures)?.[1]);
  expect(README).toContain(`${Math.round(measured("to the first decoded frame, p50 of 30"))} ms`);
  const ofPeer = (peer: string) =>
    [2, 10, 100].map((viewers) => Math.round(measured(`Stoa against ${peer}, 1 → ${viewers}`) * 100));
  const [janus, mediasoup] = [ofPeer("Janus"), ofPeer("mediasoup")].map(
    ([few, some, many]) => `${few}, ${some} or ${many} %`,
  );
  expect(README).toContain(`${janus} of the CPU time that Janus takes, ${mediasoup} of mediasoup's`);
  expect(README).toContain(`p99 ${measured("Stoa: ack p99").toFixed(1)} ms`);
  expect(README).toContain(`${Math.round(measured("deliveries against socket.io"))} times`);
  expect(README).toContain(`${measured("5000 sockets back and resumed in").toFixed(1)} s`);
  expect(README).toContain(`ready in ${Math.round(measured("binary to /readyz, median of 10"))} ms`);
  expect(README).toContain(`${Math.round(measured("memory at rest \\(RSS\\), median of 3"))} MB`);
});

test("[11] the guide on configuration is what `stoa config doc` prints", () => {
  const guide = readGuides().find(({ name }) => name === "configuration");
  expect(guide?.text).toContain(documentConfig());
});

test("[11] the reference names every variable once, and no secret has a default", () => {
  const reference = documentConfig();
  for (const name of VARIABLE_NAMES) expect(reference.split(`| \`${name}\` |`)).toHaveLength(2);
  for (const line of reference.split("\n").filter((row) => row.includes("| secret, ")))
    expect(line).toMatch(/^\| `\w+` \| {2}\|/);
});
