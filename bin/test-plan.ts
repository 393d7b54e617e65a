/**
 * Which tests run when, beside what, and which programs they need. What holds for a folder stands here; a file that differs
 * from its folder says so in its first lines: `// suite: all`, `// suite: soak`, `// runs: alone`, `// runs: beside one`,
 * `// browser: shell`, `// browser: windows`, `// needs: gcc libssl-dev`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** `default` runs in `bin/test`, `all` in `bin/test --all`, `soak` (long rounds and matrices) in `bin/test --soak`. */
export type Suite = "default" | "all" | "soak";
/** What else runs at the same time: other folders, one other that needs quiet as well, or nothing. */
export type Beside = "others" | "one" | "nothing";
export type TestFile = {
  path: string;
  folder: string;
  suite: Suite;
  beside: Beside;
  /** Pages open in `chromium-headless-shell`. */
  shell: boolean;
  needs: string[];
};

/** How the tests of a folder run, if not like all others. */
type Kind = {
  /** Needs a browser, network namespaces, other servers or minutes: part of `bin/test --all` only. */
  onlyAll?: true;
  /** Starts browsers, programs or whole servers: each test may take three minutes instead of half of one. */
  slow?: true;
  /** "one" and "nothing" are for what measures how smoothly something runs, or loads the machine on purpose; it runs last. */
  beside?: Beside;
  /** Waits for most of its time, for leases, resume windows or certificates: runs as a third, beside two that compute. */
  waits?: true;
  /** Depends on no time: runs in the processor time that the others leave. */
  background?: true;
  /** Drives a browser: one such folder runs beside others, and two once those are done, as two cores bear no more. */
  browser?: true;
  /**
   * Adds interfaces to the machine's network, so it runs in a network namespace of its own: a browser aborts every request
   * that is under way when the addresses of its machine change.
   */
  ownNetwork?: true;
};

/** Kinds by the folder below test/ (`folderOf`). The tests of a folder that is not listed are fast and run in `bin/test`. */
const KINDS: Record<string, Kind> = {
  cli: { slow: true, background: true },
  cluster: { onlyAll: true, slow: true, waits: true, ownNetwork: true },
  "e2e/binary": { slow: true, background: true },
  "e2e/faults": { onlyAll: true, slow: true },
  "e2e/journey": { slow: true, browser: true },
  "e2e/networks": { onlyAll: true, slow: true, beside: "one", ownNetwork: true },
  "e2e/verdicts": { onlyAll: true, slow: true, beside: "nothing", ownNetwork: true },
  e2e: { onlyAll: true, slow: true, browser: true },
  "features/accounts": { slow: true, background: true },
  "features/chat": { slow: true, background: true },
  "features/recordings": { onlyAll: true, slow: true },
  "features/sessions": { slow: true, background: true },
  foreign: { onlyAll: true, slow: true, browser: true, ownNetwork: true },
  "gateways/livekit": { onlyAll: true, slow: true, waits: true },
  "gateways/signaling": { slow: true, background: true },
  "network/acme": { onlyAll: true, slow: true, waits: true },
  "network/tls": { onlyAll: true, slow: true },
  "network/turn": { onlyAll: true, slow: true },
  "nodes/remote": { onlyAll: true, slow: true, waits: true, ownNetwork: true },
  ops: { onlyAll: true, slow: true, waits: true, ownNetwork: true },
  "ops/load-test": { onlyAll: true },
  "rtc-client": { onlyAll: true, slow: true },
  spec: { slow: true, background: true },
  "web/docs": { slow: true, background: true },
  "web/package": { onlyAll: true, slow: true, background: true },
};

/** Folders whose servers and commands start from the built binary: three times as fast as from source. */
const FROM_BINARY = [
  "cli",
  "cluster",
  "e2e/binary",
  "e2e/faults",
  "e2e/journey",
  "e2e/media",
  "e2e/sdk",
  "e2e/verdicts",
  "features/privacy",
  "gateways/livekit",
  "nodes/remote",
  "ops",
  "security",
  "web/docs",
  "web/package",
];

/**
 * Folders whose pages open in `chromium-headless-shell`, which has Chromium's engine and no windows: opening and closing a
 * page takes 0.14 instead of 0.87 s of CPU time.
 */
const IN_HEADLESS_SHELL = ["e2e/dashboard", "e2e/embed", "e2e/playground", "e2e/sdk", "gateways/livekit"];

const NETWORK_TOOLS = ["iproute2", "nftables"];

/** Debian packages by the folder that needs them. */
const PACKAGES: Record<string, string[]> = {
  cluster: ["postgresql", "chromium", "e2fsprogs", "haproxy", "nginx-light", "caddy", ...NETWORK_TOOLS],
  e2e: ["chromium", "firefox-esr", "ffmpeg"],
  "e2e/dashboard": ["chromium"],
  "e2e/docs": ["chromium"],
  "e2e/embed": ["chromium", "firefox-esr"],
  "e2e/faults": ["strace", "faketime"],
  "e2e/journey": ["chromium"],
  "e2e/media": ["chromium", "firefox-esr"],
  "e2e/networks": ["chromium", "python3", ...NETWORK_TOOLS],
  "e2e/playground": ["chromium"],
  "e2e/sdk": ["chromium", "firefox-esr", "ffmpeg"],
  "e2e/verdicts": ["chromium", "python3", "openssl", ...NETWORK_TOOLS],
  "features/recordings": ["ffmpeg"],
  foreign: [
    ...NETWORK_TOOLS,
    "chromium",
    "firefox-esr",
    "simple-whip-client",
    "python3-aiortc",
    "gcc",
    "libc6-dev",
    "golang-go",
    "golang-github-pion-webrtc.v3-dev",
    "golang-golang-x-image-dev",
    "gstreamer1.0-tools",
    "gstreamer1.0-nice",
    "gstreamer1.0-plugins-base",
    "gstreamer1.0-plugins-good",
    "gstreamer1.0-plugins-bad",
    "gstreamer1.0-plugins-ugly",
  ],
  "gateways/livekit": ["chromium", "firefox-esr", "libnss3-tools", "openssl"],
  "network/acme": ["pebble"],
  "network/tls": ["coturn"],
  "nodes/remote": NETWORK_TOOLS,
  ops: ["chromium", "firefox-esr", "libnss3-tools", "nginx-light", "caddy", "coturn", ...NETWORK_TOOLS],
  "rtc-client": ["ffmpeg"],
};

export function kindOf(folder: string): Kind {
  return KINDS[folder] ?? (folder.startsWith("e2e/") ? { onlyAll: true, slow: true, browser: true } : {});
}

export function startsFromBinary(folder: string): boolean {
  return FROM_BINARY.includes(folder);
}

/** Folders of `test/` whose own folders run in processes of their own. */
const GROUPS = ["e2e", "features", "gateways", "network", "nodes", "ops", "web"];
/** Code for tests, and measurements: nothing that passes or fails. */
const NOT_TESTS = ["bench", "harness"];

/** The folder whose tests run together in one process: `test/features/chat/…` is `features/chat`. */
export function folderOf(file: string): string {
  const [, first = "", second, third] = file.split("/");
  if (second === undefined) return ".";
  return GROUPS.includes(first) && third !== undefined ? `${first}/${second}` : first;
}

/** Every test file with what it needs; `filter` is a part of its path. */
export function findTests(root: string, filter = ""): TestFile[] {
  return [...new Bun.Glob("test/**/*.test.{ts,tsx}").scanSync({ cwd: root })]
    .filter((path) => path.includes(filter) && !NOT_TESTS.includes(folderOf(path)))
    .sort()
    .map((path) => describeTest(root, path));
}

function describeTest(root: string, path: string): TestFile {
  const folder = folderOf(path);
  const head = readFileSync(join(root, path), "utf8").slice(0, 400);
  const line = (name: string) => new RegExp(`^// ${name}: (.+)$`, "m").exec(head)?.[1];
  const runs = line("runs");
  const browser = line("browser");
  const needs = line("needs")?.split(" ") ?? [];
  return {
    path,
    folder,
    suite: (line("suite") as Suite | undefined) ?? (kindOf(folder).onlyAll ? "all" : "default"),
    beside: runs === undefined ? (kindOf(folder).beside ?? "others") : runs === "alone" ? "nothing" : "one",
    shell: browser === undefined ? IN_HEADLESS_SHELL.includes(folder) : browser === "shell",
    needs: [...new Set([...(PACKAGES[folder] ?? []), ...needs])],
  };
}
