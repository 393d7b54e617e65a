// suite: all
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { buildBinary, PLATFORMS, type Platform } from "../../../bin/build-binary.ts";
import { ROOT } from "../../cli/stoa.ts";
import { buildBinary as build } from "./binary.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-release-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

/** A check of the first bytes of a program for each platform. */
const FORMATS: Partial<Record<Platform, (head: Buffer) => boolean>> = {
  // These are ELF files with the number of the processor.
  "linux-x64-musl": (head) => head.readUInt32BE(0) === 0x7f454c46 && head.readUInt16LE(18) === 0x3e,
  // These are Mach-O files with the number of the processor.
  "darwin-arm64": (head) => head.readUInt32LE(0) === 0xfeedfacf && head.readUInt32LE(4) === 0x0100000c,
  "windows-x64": (head) => head.toString("latin1", 0, 2) === "MZ",
};

test.each(Object.entries(FORMATS))(
  "[11] a release for %s is made on this machine",
  async (name, isRight) => {
    const platform = PLATFORMS.find((one) => one === name);
    if (platform === undefined) throw new Error(`there is no platform ${name}`);
    const folders = { webDir: join(ROOT, "dist/web"), nativeDir: join(ROOT, `dist/cross/${platform}/native`) };
    const outfile = join(work, `stoa-${name}${name.startsWith("windows") ? ".exe" : ""}`);
    await buildBinary({ root: ROOT, platform, ...folders, outfile });
    expect(isRight(readFileSync(outfile).subarray(0, 64))).toBe(true);
    // A release contains only the program, without source maps.
    expect(existsSync(`${outfile}.map`)).toBe(false);
    rmSync(outfile);
  },
  120_000,
);

test("[11] a release contains every platform that install.sh names", () => {
  const script = readFileSync(join(ROOT, "install.sh"), "utf8");
  for (const platform of PLATFORMS.filter((one) => !one.startsWith("windows"))) {
    const [os = "", arch = "", libc] = platform.split("-");
    expect(script).toContain(`os=${os}`);
    expect(script).toContain(`arch=${arch}`);
    if (libc) expect(script).toContain(`libc=-${libc}`);
  }
});

test("[11] neither the program nor the package contains a path of the checkout or a time of the build", async () => {
  const built = dirname(await build());
  expect(readFileSync(join(built, "stoa")).indexOf(`${ROOT}/`)).toBe(-1);
  const [tarball = ""] = [...new Bun.Glob("stoa-*.tgz").scanSync(built)];
  const files = gunzipSync(readFileSync(join(built, tarball)));
  expect([files.indexOf(`${ROOT}/`), files.indexOf(tmpdir())]).toEqual([-1, -1]);
  const times = files.toString("latin1").matchAll(/(.{11})\0 {0,1}\d{6}\0 0\0{100}ustar/gs);
  expect(new Set([...times].map(([, time]) => time)).size).toBe(1);
}, 120_000);
