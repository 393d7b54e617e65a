/** The browser tests drive the distribution's own Chromium: nothing is downloaded that its packager did not sign. */
export async function ensureChromium(): Promise<void> {
  if (Bun.which("chromium") !== null) return;
  if (Bun.which("apt-get") === null) {
    console.log("There is no chromium here and no apt-get to install it: the browser tests will fail.");
    return;
  }
  console.log("installing chromium");
  const sudo = process.getuid?.() === 0 ? [] : ["sudo"];
  const install = [...sudo, "apt-get", "install", "--yes", "--no-install-recommends", "chromium"];
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  if ((await Bun.spawn(install, { env, stdout: "ignore" }).exited) === 0) return;
  await Bun.spawn([...sudo, "apt-get", "update"], { env, stdout: "ignore" }).exited;
  await Bun.spawn(install, { env, stdout: "ignore" }).exited;
}
