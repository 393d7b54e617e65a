import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { cpSync, linkSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { thisPlatform } from "../../../bin/build-binary.ts";
import { publicKeyText, signRelease } from "../../../bin/sign-release.ts";
import { FROM_SOURCE, ROOT } from "../../cli/stoa.ts";
import { buildBinary } from "./binary.ts";

const NAME = `stoa-${thisPlatform()}`;
const key = generateKeyPairSync("ed25519").privateKey;
let built = "";
let work = "";
beforeAll(async () => {
  built = dirname(await buildBinary());
  // On the same disk, so that the program can be linked instead of copied.
  work = mkdtempSync(join(built, "verify-"));
}, 120_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));

const release = () => join(work, "release");
const installed = () => join(work, "bin/stoa");
const list = () => join(release(), "checksums.txt");

beforeEach(() => {
  rmSync(release(), { recursive: true, force: true });
  cpSync(join(built, "checksums.txt"), list());
  cpSync(join(ROOT, "install.sh"), join(release(), "install.sh"));
  linkSync(join(built, NAME), join(release(), NAME));
  signRelease(release(), key, 0);
});

async function run(command: readonly string[]) {
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: work,
    STOA_BASE_URL: release(),
    STOA_INSTALL_DIR: join(work, "bin"),
  };
  const child = Bun.spawn([...command], { cwd: work, env, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, out, err };
}
const verify = (...options: string[]) =>
  run([join(built, "stoa"), "version", "--verify", "--release", release(), "--key", publicKeyText(key), ...options]);

/** Changes the list as somebody with the release key would. */
function sign(change: (text: string) => string): void {
  writeFileSync(list(), change(readFileSync(list(), "utf8")));
  cpSync(join(ROOT, "install.sh"), join(release(), "install.sh"));
  signRelease(release(), key, 0);
}

async function refused(reason: string, ...options: string[]): Promise<void> {
  const { code, out, err } = await verify(...options);
  expect([code, out]).toEqual([1, ""]);
  expect(err).toContain(reason);
}

describe("stoa version --verify", () => {
  test("says by which key the running program is signed", async () => {
    const digest = new Bun.CryptoHasher("sha256").update(readFileSync(join(built, NAME))).digest("hex");
    const { code, out } = await verify();
    expect([code, out]).toEqual([0, expect.stringContaining(`signed with ${publicKeyText(key)}, SHA-256 ${digest}\n`)]);
    expect(JSON.parse((await verify("--json")).out)).toMatchObject({ key: publicKeyText(key), sha256: digest });
  });

  test("refuses a program that is not the one in the signed list", async () => {
    sign((text) => text.replace(/[0-9a-f]{64}(?= {2}stoa-)/g, "0".repeat(64)));
    await refused("was changed: its SHA-256 is");
  });

  test("refuses the list of another version, and a list without this platform or with two of it", async () => {
    sign((text) => text.replace("# stoa ", "# stoa 9"));
    await refused("but the signed list is of stoa 9");
    sign((text) => text.replace("# stoa 9", "# stoa ").replace(`  ${NAME}\n`, "  stoa-other\n"));
    await refused(`does not name exactly one ${NAME}`);
    sign((text) => `${text}${"0".repeat(64)}  ${NAME}\n${"0".repeat(64)}  ${NAME}\n`);
    await refused(`does not name exactly one ${NAME}`);
  });

  test("refuses a list that was changed, another key, another comment and what is no signature", async () => {
    writeFileSync(list(), `${readFileSync(list(), "utf8")}\n`);
    await refused("is not signed with the release key");
    sign((text) => text.trimEnd());
    await refused("is not signed", "--key", publicKeyText(generateKeyPairSync("ed25519").privateKey));
    await refused("is no minisign public key", "--key", "RWQ");
    const signature = readFileSync(`${list()}.minisig`, "utf8");
    writeFileSync(`${list()}.minisig`, signature.replace("timestamp:0", "timestamp:1"));
    await refused("is not signed");
    writeFileSync(`${list()}.minisig`, "untrusted comment: x\nAAAA\n");
    await refused("is not signed");
    rmSync(`${list()}.minisig`);
    await refused("checksums.txt.minisig cannot be read");
  });

  test("finds the checksums that install.sh keeps until the program is uninstalled", async () => {
    const install = (...args: string[]) => run(["sh", join(release(), "install.sh"), ...args]);
    expect((await install()).code).toBe(0);
    const { code, out } = await run([installed(), "version", "--verify"]);
    expect([code, out]).toEqual([0, expect.stringContaining(`signed with ${publicKeyText(key)}`)]);
    expect((await install("--uninstall")).code).toBe(0);
    const again = await run([join(built, "stoa"), "version", "--verify"]);
    expect([again.code, again.err]).toEqual([1, expect.stringContaining("there is no release key in")]);
    expect(await Bun.file(join(work, "share/stoa/checksums.txt")).exists()).toBe(false);
  });

  test("fails when it runs from source, because there is no release to verify", async () => {
    const { code, err } = await run([...FROM_SOURCE, "version", "--verify"]);
    expect([code, err]).toEqual([1, "stoa: this runs from source, so there is no release to verify it against\n"]);
  });
});
