import { existsSync } from "node:fs";

/** For networks of a test's own; within them nothing can be installed any more. */
const NETWORK = ["iproute2", "nftables"];

/** Programs that tests drive and the packages of the distribution that hold them: nothing unsigned is downloaded. */
const PACKAGES: Record<string, string[]> = {
  "network/acme": ["pebble"],
  e2e: ["chromium", "firefox-esr", "ffmpeg"],
  "e2e/binary": ["chromium", "minisign", "nodejs"],
  spec: ["ffmpeg"],
  "web/docs": ["curl", "jq", "python3", "golang-go"],
  "network/tls": ["coturn"],
  "nodes/remote": NETWORK,
  ops: ["chromium", "firefox-esr", "libnss3-tools", "nginx-light", "caddy", "coturn", ...NETWORK],
  "web/package": ["nodejs", "npm"],
  "rtc-client": ["ffmpeg"],
  "e2e/faults": ["strace", "faketime"],
  foreign: [
    ...NETWORK,
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
  "gateways/livekit": ["chromium", "firefox-esr", "nodejs"],
  "e2e/networks": ["chromium", "python3", ...NETWORK],
  "e2e/verdicts": ["chromium", "python3", "openssl", ...NETWORK],
  "features/recordings": ["ffmpeg"],
  cluster: ["postgresql", "chromium", "e2fsprogs", "haproxy", "nginx-light", "caddy"],
  sfu: ["gcc", "libc6-dev", "libssl-dev"],
};

/** Packages without a program of their name, and a file that shows they are there. */
const FILES: Record<string, string> = {
  coturn: "/usr/bin/turnserver",
  "golang-go": "/usr/bin/go",
  "golang-github-pion-webrtc.v3-dev": "/usr/share/gocode/src/github.com/pion/webrtc",
  "golang-golang-x-image-dev": "/usr/share/gocode/src/golang.org/x/image",
  "gstreamer1.0-tools": "/usr/bin/gst-launch-1.0",
  e2fsprogs: "/usr/sbin/mkfs.ext4",
  haproxy: "/usr/sbin/haproxy",
  iproute2: "/usr/bin/ip",
  "libc6-dev": "/usr/include/stdio.h",
  "libnss3-tools": "/usr/bin/certutil",
  "libssl-dev": "/usr/include/openssl/evp.h",
  nftables: "/usr/sbin/nft",
  "nginx-light": "/usr/sbin/nginx",
  postgresql: "/usr/lib/postgresql",
  "simple-whip-client": "/usr/bin/whip-client",
  "python3-aiortc": "/usr/lib/python3/dist-packages/aiortc/__init__.py",
  ...gstreamer({ nice: "nice", base: "opus", good: "vpx", bad: "webrtc", ugly: "x264" }),
};

/** Each package of plugins by one of them. */
function gstreamer(plugins: Record<string, string>): Record<string, string> {
  const folder = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu/gstreamer-1.0`;
  return Object.fromEntries(
    Object.entries(plugins).map(([set, plugin]) => [
      `gstreamer1.0-${set === "nice" ? set : `plugins-${set}`}`,
      `${folder}/libgst${plugin}.so`,
    ]),
  );
}

function isMissing(name: string): boolean {
  if (name === "nodejs") return Bun.which("node") === null;
  const file = FILES[name];
  return file ? !existsSync(file) : Bun.which(name) === null;
}

/** Installs what the tests of this folder need and the machine lacks; every folder of e2e needs what e2e does. */
export async function ensurePrograms(folder: string): Promise<void> {
  const needed = [...(PACKAGES[folder] ?? []), ...(folder.startsWith("e2e/") ? (PACKAGES.e2e ?? []) : [])];
  const missing = needed.filter(isMissing);
  if (missing.length === 0) return;
  if (Bun.which("apt-get") === null) {
    console.log(`There is no ${missing.join(", ")} here and no apt-get to install it: test/${folder} will fail.`);
    return;
  }
  console.log(`installing ${missing.join(", ")}`);
  const sudo = process.getuid?.() === 0 ? [] : ["sudo"];
  const install = [...sudo, "apt-get", "install", "--yes", "--no-install-recommends", ...missing];
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  if ((await Bun.spawn(install, { env, stdout: "ignore" }).exited) === 0) return;
  await Bun.spawn([...sudo, "apt-get", "update"], { env, stdout: "ignore" }).exited;
  await Bun.spawn(install, { env, stdout: "ignore" }).exited;
}
