/** Changes to the machine for tests of operation: packages, mounts and network namespaces. */
import { $ } from "bun";

/** These tests mount file systems and make networks, and fail where that is not possible. */
export function requireRoot(): void {
  if (process.platform === "linux" && process.getuid?.() === 0) return;
  throw new Error(
    "test/ops needs Linux and root: it mounts file systems and makes network namespaces. Run it with sudo.",
  );
}

/** Installs a program from Debian's packages if it is missing, without starting its service. */
export async function program(name: string, debianPackage = name): Promise<string> {
  const found = Bun.which(name, { PATH: `${process.env.PATH}:/usr/sbin:/sbin` });
  if (found !== null) return found;
  requireRoot();
  if (Bun.which("apt-get") === null) throw new Error(`there is no ${name} here and no apt-get to install it`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const install = () =>
    $`apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends ${debianPackage}`
      .env(env)
      .quiet()
      .nothrow();
  if ((await install()).exitCode !== 0) await $`apt-get update`.env(env).quiet().nothrow();
  const result = await install();
  const installed = Bun.which(name, { PATH: `${process.env.PATH}:/usr/sbin:/sbin` });
  if (installed === null) throw new Error(`${debianPackage} cannot be installed: ${result.stderr}`);
  return installed;
}

/** Mounts a small file system in memory; the returned function removes it. */
export async function mountSmall(folder: string, size: string): Promise<() => Promise<void>> {
  requireRoot();
  await $`mount -t tmpfs -o size=${size} tmpfs ${folder}`.quiet();
  return async () => void (await $`umount -l ${folder}`.quiet());
}
