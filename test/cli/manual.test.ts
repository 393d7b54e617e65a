import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT, stoa } from "./stoa.ts";

test("[11] the manual lists every guide with a description", async () => {
  const { code, out } = await stoa(["manual"]);
  expect(code).toBe(0);
  const lines = out.trim().split("\n");
  const names = lines.map((line) => line.split(" ")[0] ?? "");
  const files = readdirSync(join(ROOT, "web/docs")).filter((file) => file.endsWith(".md"));
  expect([...names].sort()).toEqual(files.map((file) => file.slice(0, -3)).sort());
  expect(names.slice(0, 3)).toEqual(["start", "rooms", "chat"]);
  for (const line of lines) expect(line).toMatch(/^[\w-]+ +\S.{20,}/);
});

test("[11] the manual prints a guide by its name, or a chapter by its heading", async () => {
  const { out: rooms } = await stoa(["manual", "rooms"]);
  expect(rooms).toStartWith("# Rooms\n");
  expect(rooms).not.toContain("<!--");
  const { out: all } = await stoa(["manual", "operate"]);
  for (const word of ["vps", "firewall", "proxies", "backup", "limits"]) {
    const { out: one } = await stoa(["manual", word]);
    expect(one).toStartWith("## ");
    expect(one.length).toBeGreaterThan(100);
    expect(all).toContain(one.trim());
  }
  expect((await stoa(["manual", "configuration"])).out).toContain("`MEDIA_UDP_PORT`");
}, 60_000);

test("[11] an unknown topic of the manual is reported as wrong usage", async () => {
  const { code, err } = await stoa(["manual", "cooking"]);
  expect(code).toBe(2);
  expect(err).toContain('no "cooking"');
  expect((await stoa(["help"])).out).toContain("manual");
});
