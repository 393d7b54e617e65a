/** Programs that tests drive and the packages of the distribution that hold them: nothing unsigned is downloaded. */
const PACKAGES: Record<string, string[]> = {
  browser: ["chromium", "firefox-esr"],
  faults: ["strace", "faketime"],
};

/** Installs what the tests of this folder need and the machine lacks. */
export async function ensurePrograms(folder: string): Promise<void> {
  const missing = (PACKAGES[folder] ?? []).filter((program) => Bun.which(program) === null);
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
