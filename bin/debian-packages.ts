/** The programs that tests and benches need, and the Debian packages that contain them. Nothing unsigned is downloaded. */
import { existsSync } from "node:fs";

/** A file that proves the installation of each package that has no program of its name. */
const FILES: Record<string, string> = {
  coturn: "/usr/bin/turnserver",
  "golang-go": "/usr/bin/go",
  "golang-github-pion-webrtc.v3-dev": "/usr/share/gocode/src/github.com/pion/webrtc",
  "golang-golang-x-image-dev": "/usr/share/gocode/src/golang.org/x/image",
  "gstreamer1.0-tools": "/usr/bin/gst-launch-1.0",
  e2fsprogs: "/usr/sbin/mkfs.ext4",
  prometheus: "/usr/bin/promtool",
  "golang-github-masterminds-sprig-dev": "/usr/share/gocode/src/github.com/Masterminds/sprig",
  haproxy: "/usr/sbin/haproxy",
  iproute2: "/usr/bin/ip",
  "libc6-dev": "/usr/include/stdio.h",
  "libnss3-tools": "/usr/bin/certutil",
  "libssl-dev": "/usr/include/openssl/evp.h",
  nftables: "/usr/sbin/nft",
  "nginx-light": "/usr/sbin/nginx",
  postgresql: "/usr/lib/postgresql",
  xvfb: "/usr/bin/Xvfb",
  "simple-whip-client": "/usr/bin/whip-client",
  "python3-aiortc": "/usr/lib/python3/dist-packages/aiortc/__init__.py",
  ...gstreamerPlugins({ nice: "nice", base: "opus", good: "vpx", bad: "webrtc", ugly: "x264" }),
};

/** Each package of GStreamer plugins is recognised by one of its plugins. */
function gstreamerPlugins(plugins: Record<string, string>): Record<string, string> {
  const folder = `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu/gstreamer-1.0`;
  return Object.fromEntries(
    Object.entries(plugins).map(([set, plugin]) => [
      `gstreamer1.0-${set === "nice" ? set : `plugins-${set}`}`,
      `${folder}/libgst${plugin}.so`,
    ]),
  );
}

export function isMissing(packageName: string): boolean {
  const file = FILES[packageName];
  return file ? !existsSync(file) : Bun.which(packageName) === null;
}

/** Installs missing packages if apt is available to this user; otherwise they remain missing. */
export async function installPackages(names: readonly string[]): Promise<void> {
  const missing = [...new Set(names)].filter(isMissing);
  if (missing.length === 0 || Bun.which("apt-get") === null) return;
  const isRoot = process.getuid?.() === 0;
  const sudo = isRoot ? [] : ["sudo", "--non-interactive"];
  if (!isRoot && (Bun.which("sudo") === null || (await exitCode([...sudo, "true"])) !== 0)) return;
  console.log(`installing ${missing.join(", ")}`);
  const command = [...sudo, "apt-get", "install", "--yes", "--no-install-recommends", ...missing];
  if ((await exitCode(command)) === 0) return;
  await exitCode([...sudo, "apt-get", "update"]);
  await exitCode(command);
}

function exitCode(command: string[]): Promise<number> {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  return Bun.spawn(command, { env, stdout: "ignore", stderr: "ignore" }).exited;
}
