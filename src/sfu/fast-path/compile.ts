/** Makes the native part of the packet path from its C files, for `bin/build` and for running from a checkout. */
import { mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

export const NATIVE_SOURCES = [
  "ciphers.c",
  "gcm.c",
  "srtp.c",
  "receivers.c",
  "take.c",
  "fan-out.c",
  "send.c",
  "watch.c",
].map((file) => join(import.meta.dir, file));

const HEADERS = ["native.h", "cipher.h", "watch.h"].map((file) => join(import.meta.dir, file));

const COMPILERS = ["cc", "gcc", "clang"];
/** For the other architecture, with its libcrypto beside it: Debian has `gcc-aarch64-linux-gnu` and `libssl-dev:arm64`. */
const CROSS_COMPILERS: Record<NativeArch, string> = {
  arm64: "aarch64-linux-gnu-gcc",
  x64: "x86_64-linux-gnu-gcc",
};
const COMMON = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"];
/**
 * Only our own functions are visible, and those of libcrypto are bound to our copy: Bun has functions of the same names. It
 * is never unloaded, because libcrypto cleans up behind every thread that used it.
 */
const SHARED_OBJECT = [
  "-fPIC",
  "-shared",
  "-fvisibility=hidden",
  "-s",
  "-Wl,--exclude-libs,ALL,-Bsymbolic,-z,nodelete",
];
/** With libcrypto inside, the library runs where there is none; otherwise it needs that of the machine. */
const LIBCRYPTO = ["-l:libcrypto.a", "-lcrypto"];

export type NativeArch = "x64" | "arm64";
export type Compiled = { ok: true } | { ok: false; reason: string };

/** Changes with everything that goes into the library. */
export function nativeFingerprint(): string {
  const hasher = new Bun.CryptoHasher("sha256");
  for (const file of [...NATIVE_SOURCES, ...HEADERS]) hasher.update(readFileSync(file));
  return hasher
    .update(JSON.stringify([process.arch, COMMON, SHARED_OBJECT, LIBCRYPTO]))
    .digest("hex")
    .slice(0, 16);
}

/** For this machine, unless another architecture is named. */
export async function compileNative(outfile: string, arch?: NativeArch): Promise<Compiled> {
  if (process.platform !== "linux") return { ok: false, reason: "it is made for Linux" };
  const names = arch === undefined || arch === process.arch ? COMPILERS : [CROSS_COMPILERS[arch]];
  const compiler = names.map((name) => Bun.which(name)).find((path) => path !== null);
  if (!compiler) return { ok: false, reason: `there is no C compiler${arch ? ` for ${arch}` : ""}` };
  mkdirSync(dirname(outfile), { recursive: true });
  // Others may be doing the same at this moment: each writes a file of its own, and the last one stays.
  const draft = `${outfile}.${process.pid}.${crypto.randomUUID().slice(0, 8)}`;
  let problem = "";
  for (const libcrypto of LIBCRYPTO) {
    const run = Bun.spawn([compiler, ...COMMON, ...SHARED_OBJECT, ...NATIVE_SOURCES, libcrypto, "-o", draft], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    problem = await new Response(run.stderr).text();
    if ((await run.exited) === 0) {
      renameSync(draft, outfile);
      return { ok: true };
    }
  }
  rmSync(draft, { force: true });
  return { ok: false, reason: `the C compiler refused: ${problem.trim().split("\n")[0] ?? ""}` };
}
