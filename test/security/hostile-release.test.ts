// suite: all
/** Someone who can replace a release on its way to install.sh: the programs, their list, its signature, the folder. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { thisPlatform } from "../../bin/build-binary.ts";
import { minisig, signRelease } from "../../bin/sign-release.ts";
import { ROOT } from "../cli/stoa.ts";
import { buildBinary } from "../e2e/binary/binary.ts";

const NAME = `stoa-${thisPlatform()}`;
/** The program that an attacker would install. */
const FORGED = "#!/bin/sh\necho stoa 99.0.0\n";

const work = mkdtempSync(join(tmpdir(), "stoa-release-"));
const genuine = join(work, "genuine");
const release = join(work, "release");
const target = join(work, "bin");
const key = generateKeyPairSync("ed25519").privateKey;
let version = "";

const sha256 = (path: string) => new Bun.CryptoHasher("sha256").update(readFileSync(path)).digest("hex");

beforeAll(async () => {
  const binary = await buildBinary();
  version = (Bun.spawnSync([binary, "version"]).stdout.toString().split(" ")[1] ?? "").trim();
  mkdirSync(genuine);
  cpSync(binary, join(genuine, NAME));
  cpSync(join(ROOT, "install.sh"), join(genuine, "install.sh"));
  writeFileSync(join(genuine, "checksums.txt"), `# stoa ${version}\n${sha256(binary)}  ${NAME}\n`);
  signRelease(genuine, key, 0);
}, 240_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));
beforeEach(() => {
  for (const folder of [release, target]) rmSync(folder, { recursive: true, force: true });
  cpSync(genuine, release, { recursive: true });
  mkdirSync(target);
});

/** The user has the genuine script; everything else comes from the attacker. */
async function install(env: Record<string, string> = {}) {
  const child = Bun.spawn(["sh", join(genuine, "install.sh")], {
    cwd: work,
    env: { PATH: process.env.PATH ?? "", HOME: work, STOA_INSTALL_DIR: target, STOA_BASE_URL: release, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, err] = await Promise.all([child.exited, new Response(child.stderr).text()]);
  return { code, err };
}

function forge(signer?: KeyObject): void {
  writeFileSync(join(release, NAME), FORGED);
  writeFileSync(join(release, "checksums.txt"), `# stoa 99.0.0\n${sha256(join(release, NAME))}  ${NAME}\n`);
  const list = readFileSync(join(release, "checksums.txt"));
  if (signer) writeFileSync(join(release, "checksums.txt.minisig"), minisig(signer, list, "forged"));
}

/** A PATH on which `openssl` is another one than OpenSSL 3, and minisign is missing. */
function oldTools(openssl: string): string {
  const tools = join(work, "tools");
  rmSync(tools, { recursive: true, force: true });
  mkdirSync(tools);
  const needed =
    "sh sed cut cat cp mv rm mkdir mktemp chmod uname ls getconf dirname grep awk sha256sum wc dd id sort tail";
  for (const name of needed.split(" ")) symlinkSync(Bun.which(name) ?? name, join(tools, name));
  writeFileSync(join(tools, "openssl"), `#!/bin/sh\n${openssl}\n`, { mode: 0o755 });
  return tools;
}

test("the genuine release is installed", async () => {
  expect((await install()).code).toBe(0);
  expect(sha256(join(target, "stoa"))).toBe(sha256(join(genuine, NAME)));
}, 60_000);

/** Each changes the release, and may return variables of the attacker's choice. */
const FORGERIES: Record<string, () => unknown> = {
  "another program of the same version under the signed list": () =>
    writeFileSync(join(release, NAME), `#!/bin/sh\necho stoa ${version}\n`),
  "another list under the old signature": () => forge(),
  "a list that the attacker has signed": () => forge(generateKeyPairSync("ed25519").privateKey),
  "a list without a signature": () => {
    forge();
    rmSync(join(release, "checksums.txt.minisig"));
  },
  "a forged list where openssl is LibreSSL, which says yes to everything": () => {
    forge(generateKeyPairSync("ed25519").privateKey);
    return { PATH: oldTools('[ "$1" = version ] && echo LibreSSL 3.3.6; exit 0') };
  },
  "a forged list where openssl is 1.1.1 or missing": () => {
    forge(generateKeyPairSync("ed25519").privateKey);
    return { PATH: oldTools('[ "$1" = version ] && echo OpenSSL 1.1.1w; exit 1') };
  },
  "an old signed release in the folder of a newer one": () => {
    cpSync(genuine, join(release, "v99.0.0"), { recursive: true });
    return { STOA_VERSION: "v99.0.0" };
  },
  "an old signed release over a newer one that is installed": () => {
    writeFileSync(join(target, "stoa"), "#!/bin/sh\necho stoa 98.0.0\n", { mode: 0o755 });
  },
};

for (const [name, prepare] of Object.entries(FORGERIES)) {
  test(`${name}: nothing is installed`, async () => {
    const env = prepare() as Record<string, string> | undefined;
    const path = join(target, "stoa");
    const before = existsSync(path) ? readFileSync(path, "utf8") : null;
    const { code, err } = await install(env);
    expect([code, err.trim().endsWith("nothing was installed")]).toEqual([1, true]);
    expect(existsSync(path) ? readFileSync(path, "utf8") : null).toBe(before);
  }, 60_000);
}

test("the secrets of a service stay unreadable to others when its domain is set", async () => {
  const settings = join(work, "settings");
  const script = readFileSync(join(genuine, "install.sh"), "utf8");
  const setDomain = script.replace('main "$@"', `settings_dir=${settings}\ndomain=rtc.example.com\nwrite_domain`);
  writeFileSync(join(work, "domain.sh"), setDomain);
  const environment = join(settings, "environment");
  const run = () => Bun.spawnSync(["sh", join(work, "domain.sh")], { cwd: work }).exitCode;
  expect([run(), statSync(environment).mode & 0o777]).toEqual([0, 0o600]);
  writeFileSync(environment, "STOA_SECRET=x\n");
  chmodSync(environment, 0o600);
  expect([run(), statSync(environment).mode & 0o777]).toEqual([0, 0o600]);
  expect(readFileSync(environment, "utf8")).toContain("STOA_SECRET=x\n");
});

test("a service leaves no core dump, which would hold every secret", () => {
  const script = ["sh", join(genuine, "install.sh"), "--print-service"];
  const shown = Bun.spawnSync(script, { cwd: work, env: { PATH: process.env.PATH ?? "", STOA_INSTALL_DIR: target } });
  expect(shown.stdout.toString()).toContain("LimitCORE=0\n");
});
