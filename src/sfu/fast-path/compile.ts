/** Compiles the native half of the fast path from its C files, for `bin/build` and for running from a checkout. */
import { mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/** In this order: a file calls only functions of the files before it. */
export const NATIVE_SOURCES = [
  "gcm.c",
  "srtp.c",
  "receivers.c",
  "engine.c",
  "source-packet.c",
  "streams.c",
  "fan-out.c",
  "send.c",
  "receive-loop.c",
].map((file) => join(import.meta.dir, file));

const HEADERS = ["fast-path.h", "srtp.h"].map((file) => join(import.meta.dir, file));

const COMPILERS = ["cc", "gcc", "clang"];
/** Compilers for the other architecture, which need its libcrypto: Debian has `gcc-aarch64-linux-gnu` and `libssl-dev:arm64`. */
const CROSS_COMPILERS: Record<NativeArch, string> = {
  arm64: "aarch64-linux-gnu-gcc",
  x64: "x86_64-linux-gnu-gcc",
};
const COMMON = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"];
/**
 * Only the functions of the C files are visible, and they use their own copy of libcrypto: Bun has functions of the same names. The
 * library is never unloaded, because libcrypto cleans up behind every thread that used it.
 */
const SHARED_OBJECT = [
  "-fPIC",
  "-shared",
  "-fvisibility=hidden",
  "-s",
  "-Wl,--exclude-libs,ALL,-Bsymbolic,-z,nodelete",
];
/** libcrypto is linked statically, so that the library runs on machines without it. */
const LIBCRYPTO = ["-l:libcrypto.a", "-lcrypto"];

export type NativeArch = "x64" | "arm64";
type Compiled = { ok: true; compiler: string; isStatic: boolean } | { ok: false; reason: string };

/** A hash that changes whenever the compiled library would. */
export function nativeFingerprint(): string {
  const hasher = new Bun.CryptoHasher("sha256");
  for (const file of [...NATIVE_SOURCES, ...HEADERS]) hasher.update(readFileSync(file));
  return hasher
    .update(JSON.stringify([process.arch, COMMON, SHARED_OBJECT, LIBCRYPTO]))
    .digest("hex")
    .slice(0, 16);
}

/** Compiles for this machine unless another architecture is named. */
export async function compileNative(outfile: string, arch?: NativeArch): Promise<Compiled> {
  if (process.platform !== "linux") return { ok: false, reason: "it is made for Linux" };
  const names = arch === undefined || arch === process.arch ? COMPILERS : [CROSS_COMPILERS[arch]];
  const compiler = names.map((name) => Bun.which(name)).find((path) => path !== null);
  if (!compiler) return { ok: false, reason: `there is no C compiler${arch ? ` for ${arch}` : ""}` };
  mkdirSync(dirname(outfile), { recursive: true });
  // Several processes may compile at the same time: each writes its own draft, and the last rename wins.
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
      return { ok: true, compiler, isStatic: libcrypto === LIBCRYPTO[0] };
    }
  }
  rmSync(draft, { force: true });
  return { ok: false, reason: `the C compiler refused: ${problem.trim().split("\n")[0] ?? ""}` };
}
