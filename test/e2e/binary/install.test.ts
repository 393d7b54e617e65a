// needs: minisign
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { thisPlatform } from "../../../bin/build-binary.ts";
import { minisig, publicKeyText, signingKey, signRelease } from "../../../bin/sign-release.ts";

const SCRIPT = readFileSync(join(import.meta.dir, "../../../install.sh"), "utf8");
const NAME = `stoa-${thisPlatform()}`;
/** Stands in for the binary: the installer only asks it for its version. */
const BINARY = "#!/bin/sh\necho stoa 9.9.9\n";
const OLD = "#!/bin/sh\necho stoa 1.0.0\n";

const work = mkdtempSync(join(tmpdir(), "stoa-install-"));
const release = join(work, "release");
const target = join(work, "bin");
afterAll(() => rmSync(work, { recursive: true, force: true }));

beforeEach(() => {
  rmSync(work, { recursive: true, force: true });
  mkdirSync(release, { recursive: true });
  mkdirSync(target);
  writeFileSync(join(work, "install.sh"), SCRIPT);
  writeFileSync(join(release, NAME), BINARY);
  writeFileSync(
    join(release, "checksums.txt"),
    `# stoa 9.9.9\n${sha256(BINARY)}  ${NAME}\n${"0".repeat(64)}  stoa-other\n`,
  );
});

const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest("hex");

async function install(args: string[], env: Record<string, string> = {}, script = join(work, "install.sh")) {
  const child = Bun.spawn(["sh", script, ...args], {
    cwd: work,
    env: { PATH: process.env.PATH ?? "", HOME: work, STOA_INSTALL_DIR: target, ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out, err };
}

const installed = () => readFileSync(join(target, "stoa"), "utf8");

describe("install.sh takes a release", () => {
  test("installs from a folder, and leaves nothing but the command behind", async () => {
    const { code, out } = await install([], { STOA_BASE_URL: release });
    expect(code).toBe(0);
    expect(out).toContain(`installed stoa 9.9.9 as ${join(target, "stoa")}`);
    expect(installed()).toBe(BINARY);
    expect(statSync(join(target, "stoa")).mode & 0o777).toBe(0o755);
    expect(readdirSync(target)).toEqual(["stoa"]);
  });

  test("installs the requested version, by http from this machine", async () => {
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: ({ url }) => new Response(Bun.file(join(release, new URL(url).pathname.replace("/v9/", "")))),
    });
    const base = { STOA_BASE_URL: `http://127.0.0.1:${server.port}`, STOA_VERSION: "v9" };
    const { code } = await install([], base);
    await server.stop(true);
    expect(code).toBe(0);
    expect(installed()).toBe(BINARY);
  });

  test("replaces an older version in one step", async () => {
    writeFileSync(join(target, "stoa"), OLD);
    expect((await install([], { STOA_BASE_URL: release })).code).toBe(0);
    expect(installed()).toBe(BINARY);
  });
});

describe("install.sh fails closed and keeps what was installed", () => {
  beforeEach(() => writeFileSync(join(target, "stoa"), OLD));

  async function refused(env: Record<string, string>, reason: string): Promise<void> {
    const { code, out, err } = await install([], env);
    expect(code).toBe(1);
    expect(err).toContain(reason);
    expect(out).not.toContain("installed");
    expect(installed()).toBe(OLD);
    expect(readdirSync(target)).toEqual(["stoa"]);
  }

  test("refuses a program with another checksum", async () => {
    writeFileSync(join(release, NAME), `${BINARY}# changed\n`);
    await refused({ STOA_BASE_URL: release }, "but checksums.txt says");
  });

  test("refuses a release without checksums.txt", async () => {
    rmSync(join(release, "checksums.txt"));
    await refused({ STOA_BASE_URL: release }, "checksums.txt cannot be read; nothing was installed");
  });

  test("refuses a list without an entry for this platform", async () => {
    writeFileSync(join(release, "checksums.txt"), `${sha256(BINARY)}  stoa-other\n`);
    await refused({ STOA_BASE_URL: release }, `names no single SHA-256 of ${NAME}`);
  });

  test("refuses a list with two entries for this platform", async () => {
    const other = `${"a".repeat(64)}  ${NAME}\n`;
    writeFileSync(join(release, "checksums.txt"), `${sha256(BINARY)}  ${NAME}\n${other}`);
    await refused({ STOA_BASE_URL: release }, `names no single SHA-256 of ${NAME}`);
  });

  test("refuses a checksum of another length", async () => {
    writeFileSync(join(release, "checksums.txt"), `${sha256(BINARY).slice(0, 40)}  ${NAME}\n`);
    await refused({ STOA_BASE_URL: release }, `names no single SHA-256 of ${NAME}`);
  });

  test.each([
    ["with a content length", `content-length: ${BINARY.length}\r\n`],
    ["without a content length", ""],
  ])("refuses a download that was cut off, %s", async (_, length) => {
    const checksums = readFileSync(join(release, "checksums.txt"), "utf8");
    const server = createServer((socket) =>
      socket.once("data", (request) => {
        const whole = request.toString().includes("checksums.txt");
        const body = whole ? checksums : BINARY.slice(0, -6);
        socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n${whole ? "" : length}\r\n${body}`);
      }),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    await refused({ STOA_BASE_URL: `http://127.0.0.1:${port}` }, "nothing was installed");
    server.close();
  });

  test("refuses http to other machines", () => refused({ STOA_BASE_URL: "http://192.0.2.1/stoa" }, "is not encrypted"));

  test("fails when there is nowhere to download from", () => refused({}, "set STOA_BASE_URL"));

  test("refuses a binary that does not run on this machine", async () => {
    const broken = "#!/bin/sh\nexit 1\n";
    writeFileSync(join(release, NAME), broken);
    writeFileSync(join(release, "checksums.txt"), `${sha256(broken)}  ${NAME}\n`);
    await refused({ STOA_BASE_URL: release }, "does not run on this machine");
  });
});

describe("install.sh of a signed release", () => {
  const key = generateKeyPairSync("ed25519").privateKey;
  const script = join(release, "install.sh");
  beforeEach(() => {
    writeFileSync(join(target, "stoa"), OLD);
    writeFileSync(script, SCRIPT);
    signRelease(release, key, 0);
  });
  const run = (env: Record<string, string> = {}) => install([], { STOA_BASE_URL: release, ...env }, script);
  async function refused(reason: string, env: Record<string, string> = {}): Promise<void> {
    const { code, out, err } = await run(env);
    expect([code, err.trim().endsWith("nothing was installed"), installed()]).toEqual([1, true, OLD]);
    expect(err).toContain(reason);
    expect(out).not.toContain("is signed");
  }
  const resign = (change: (signed: Buffer) => void) => {
    const path = join(release, "checksums.txt.minisig");
    const lines = readFileSync(path, "utf8").split("\n");
    const signed = Buffer.from(lines[1] ?? "", "base64");
    change(signed);
    writeFileSync(path, [lines[0], signed.toString("base64"), ...lines.slice(2)].join("\n"));
  };

  test("is installed, and the output says that the signature is valid", async () => {
    const { code, out } = await run();
    expect([code, installed()]).toEqual([0, BINARY]);
    expect(out).toContain("checksums.txt is signed with the release key\n");
  });

  test("minisign itself takes our signature with our key, and nothing else", async () => {
    const list = join(release, "checksums.txt");
    const verify = async (by = key) => {
      const check = Bun.spawn(["minisign", "-Vm", list, "-P", publicKeyText(by)], { stdout: "pipe", stderr: "pipe" });
      return { code: await check.exited, out: await new Response(check.stdout).text() };
    };
    const { code, out } = await verify();
    expect([code, out]).toEqual([0, expect.stringContaining("timestamp:0\tfile:checksums.txt\thashed")]);
    expect((await verify(generateKeyPairSync("ed25519").privateKey)).code).not.toBe(0);
    writeFileSync(list, `${readFileSync(list, "utf8")}\n`);
    expect((await verify()).code).not.toBe(0);
  });

  test("a changed program is refused, although its checksum list was changed along with it", async () => {
    const changed = `${BINARY}# changed\n`;
    writeFileSync(join(release, NAME), changed);
    writeFileSync(join(release, "checksums.txt"), `${sha256(changed)}  ${NAME}\n`);
    await refused("checksums.txt is not signed with the release key");
  });

  test("refuses a signature that is missing, cut off, changed, of another kind or by another key", async () => {
    resign((signed) => signed.writeUInt8(signed.readUInt8(40) ^ 1, 40));
    await refused("is not signed with the release key");
    signAgain();
    resign((signed) => signed.write("Ed"));
    await refused("unknown kind");
    signAgain(generateKeyPairSync("ed25519").privateKey);
    await refused("is not signed with the release key");
    writeFileSync(join(release, "checksums.txt.minisig"), "untrusted comment: x\nAAAA\n");
    await refused("is no signature");
    rmSync(join(release, "checksums.txt.minisig"));
    await refused("the release is not signed");
  });
  const signAgain = (by = key) =>
    writeFileSync(
      join(release, "checksums.txt.minisig"),
      minisig(by, readFileSync(join(release, "checksums.txt")), "again"),
    );

  test("a key that the user names counts before the one in the file", async () => {
    const other = generateKeyPairSync("ed25519").privateKey;
    await refused("is not signed with the release key", { STOA_RELEASE_KEY: publicKeyText(other) });
    await refused("no minisign public key", { STOA_RELEASE_KEY: "RWQ" });
    expect((await run({ STOA_RELEASE_KEY: publicKeyText(key) })).code).toBe(0);
  });

  /** A PATH on which `openssl` is LibreSSL and, unless it is given, `minisign` is missing. */
  function withoutOpenSsl(minisign?: string): string {
    const tools = join(work, "tools");
    mkdirSync(tools);
    writeFileSync(join(tools, "openssl"), "#!/bin/sh\necho LibreSSL 3.3.6\n", { mode: 0o755 });
    const needed = ["sh", "sed", "cut", "cat", "cp", "mv", "rm", "mkdir", "mktemp", "chmod", "uname", "ls", "getconf"];
    for (const name of [...needed, "dirname", "grep", "awk", "sha256sum", "wc", "dd", "id", "sort", "tail", "env"]) {
      symlinkSync(Bun.which(name) ?? name, join(tools, name));
    }
    if (minisign) symlinkSync(minisign, join(tools, "minisign"));
    return tools;
  }

  test("refuses a signature that cannot be checked", async () => {
    await refused("without OpenSSL 3 or minisign", { PATH: withoutOpenSsl() });
  });

  test("checks the signature with minisign where OpenSSL is too old", async () => {
    const PATH = withoutOpenSsl(Bun.which("minisign") ?? "");
    expect((await run({ PATH })).code).toBe(0);
    signAgain(generateKeyPairSync("ed25519").privateKey);
    writeFileSync(join(target, "stoa"), OLD);
    await refused("is not signed with the release key", { PATH });
  });

  test("refuses an old signed release in the folder of another version", async () => {
    mkdirSync(join(release, "v10.0.0"));
    for (const name of [NAME, "checksums.txt", "checksums.txt.minisig"]) {
      copyFileSync(join(release, name), join(release, "v10.0.0", name));
    }
    const wanted = { STOA_VERSION: "v10.0.0" };
    await refusedAfterSigning("STOA_VERSION is v10.0.0, but the signed release is 9.9.9", wanted);
  });

  test("takes a signed release of the version asked for, and goes back to an older one only when asked", async () => {
    const newer = "#!/bin/sh\necho stoa 10.0.0\n";
    writeFileSync(join(target, "stoa"), newer);
    chmodSync(join(target, "stoa"), 0o755);
    const { code, err } = await run();
    expect([code, installed()]).toEqual([1, newer]);
    expect(err).toContain("older than the installed 10.0.0");
    mkdirSync(join(release, "v9.9.9"));
    for (const name of [NAME, "checksums.txt", "checksums.txt.minisig"]) {
      copyFileSync(join(release, name), join(release, "v9.9.9", name));
    }
    expect((await run({ STOA_VERSION: "v9.9.9" })).code).toBe(0);
    expect(installed()).toBe(BINARY);
  });

  test("refuses a signed list that names no version, and a binary that calls itself another", async () => {
    writeFileSync(join(release, "checksums.txt"), `${sha256(BINARY)}  ${NAME}\n`);
    signAgain();
    await refusedAfterSigning("names no version");
    writeFileSync(join(release, "checksums.txt"), `# stoa 9.9.10\n${sha256(BINARY)}  ${NAME}\n`);
    signAgain();
    await refusedAfterSigning("calls itself stoa 9.9.9, but the signed release is 9.9.10");
  });

  async function refusedAfterSigning(reason: string, env: Record<string, string> = {}): Promise<void> {
    const { code, err } = await run(env);
    expect([code, err.trim().endsWith("nothing was installed"), installed()]).toEqual([1, true, OLD]);
    expect(err).toContain(reason);
  }

  test("the key comes from a file or a variable, and must be Ed25519", () => {
    const pem = String(key.export({ type: "pkcs8", format: "pem" }));
    writeFileSync(join(work, "key.pem"), pem);
    const byFile = signingKey({ STOA_SIGNING_KEY_FILE: join(work, "key.pem") });
    expect(byFile && publicKeyText(byFile)).toBe(publicKeyText(key));
    expect(signingKey({ STOA_SIGNING_KEY: pem })?.equals(key)).toBe(true);
    expect(signingKey({})).toBeNull();
    const { privateKey } = generateKeyPairSync("x25519");
    const wrong = String(privateKey.export({ type: "pkcs8", format: "pem" }));
    expect(() => signingKey({ STOA_SIGNING_KEY: wrong })).toThrow("Ed25519");
  });
});

test("musl installed beside glibc is not the system's own: the release for glibc is taken", async () => {
  const tools = join(work, "tools");
  mkdirSync(tools);
  const tool = (name: string, exitCode: number) =>
    writeFileSync(join(tools, name), `#!/bin/sh\nexit ${exitCode}\n`, { mode: 0o755 });
  const run = () => install([], { STOA_BASE_URL: release, PATH: `${tools}:${process.env.PATH}` });
  tool("ls", 0);
  tool("getconf", 0);
  const glibc = NAME.replace("-musl", "");
  expect((await run()).out).toContain(`fetching ${join(release, glibc)}\n`);
  tool("getconf", 1);
  expect((await run()).out).toContain(`fetching ${join(release, `${glibc}-musl`)}\n`);
});

test("install.sh cut off anywhere in transit installs nothing", async () => {
  const lines = SCRIPT.split("\n");
  for (let kept = 1; kept < lines.length - 2; kept += 23) {
    writeFileSync(join(work, "cut.sh"), lines.slice(0, kept).join("\n"));
    await install([], { STOA_BASE_URL: release }, join(work, "cut.sh"));
    expect(existsSync(join(target, "stoa"))).toBe(false);
  }
});

test("install.sh --uninstall removes the command, --help and wrong usage install nothing", async () => {
  await install([], { STOA_BASE_URL: release });
  expect((await install(["--uninstall"])).code).toBe(0);
  expect(existsSync(join(target, "stoa"))).toBe(false);
  expect((await install(["--uninstall"])).code).toBe(1);
  expect((await install(["--help"], { STOA_BASE_URL: release })).code).toBe(0);
  expect((await install(["--serivce"], { STOA_BASE_URL: release })).code).toBe(2);
  expect(existsSync(join(target, "stoa"))).toBe(false);
});

test("the systemd unit is well formed, does not run as root and has a stop timeout longer than the drain", async () => {
  writeFileSync(join(target, "stoa"), BINARY);
  chmodSync(join(target, "stoa"), 0o755);
  const { out } = await install(["--print-service"]);
  expect(out).toContain(`ExecStart=${join(target, "stoa")} serve\n`);
  expect(out).toContain("User=stoa\n");
  expect(out).toContain("NoNewPrivileges=yes\n");
  // A core dump would hold every secret.
  expect(out).toContain("LimitCORE=0\n");
  // The server sets the settings of its JavaScript engine itself.
  expect(out).not.toContain("BUN_");
  // Ports 443 and 80, and nothing else that root could do.
  expect(out).toContain("AmbientCapabilities=CAP_NET_BIND_SERVICE\n");
  expect(out).toContain("CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n");
  expect(out).not.toContain("MemoryDenyWriteExecute");
  // If memory grows nevertheless, this service is ended, and no other one of the machine.
  expect(Number(/^MemoryMax=(\d+)%$/m.exec(out)?.[1])).toBeLessThan(100);
  expect(Number(/TimeoutStopSec=(\d+)/.exec(out)?.[1])).toBeGreaterThan(30);
  if (Bun.which("systemd-analyze") === null) return;
  writeFileSync(join(work, "stoa.service"), out);
  const verify = Bun.spawn(["systemd-analyze", "verify", join(work, "stoa.service")], { stderr: "pipe" });
  expect([await new Response(verify.stderr).text(), await verify.exited]).toEqual(["", 0]);
});

test("an invalid domain is refused, and so is a domain without the service", async () => {
  const wrong = ["localhost", "192.0.2.1", "https://rtc.example.com", "rtc.example.com/rooms", "rtc..example.com"];
  const cases = wrong.map((domain) => ["--service", "--domain", domain]);
  for (const args of [["--domain"], ["--domain", "rtc.example.com"], ...cases]) {
    const { code, err } = await install(args, { STOA_BASE_URL: release });
    expect([args, code]).toEqual([args, 1]);
    expect(err).toContain("domain");
  }
  expect(existsSync(join(target, "stoa"))).toBe(false);
});

test("--domain keeps the other settings, and keeps them from other users", async () => {
  const settings = join(work, "settings");
  const script = join(work, "domain.sh");
  writeFileSync(script, SCRIPT.replace('main "$@"', `settings_dir=${settings}\ndomain=$1\nwrite_domain`));
  const modeOf = () => statSync(join(settings, "environment")).mode & 0o777;
  expect((await install(["rtc.example.com"], {}, script)).code).toBe(0);
  expect(modeOf()).toBe(0o600);
  writeFileSync(join(settings, "environment"), "STOA_SECRET=x\nDOMAIN=old.example.com\n");
  chmodSync(join(settings, "environment"), 0o640);
  expect((await install(["rtc.example.org"], {}, script)).code).toBe(0);
  expect(modeOf()).toBe(0o640);
  expect(readFileSync(join(settings, "environment"), "utf8")).toBe("STOA_SECRET=x\nDOMAIN=rtc.example.org\n");
  expect(readdirSync(settings)).toEqual(["environment"]);
});
