/** Both ways of the packet path, for the suites that hold for either. */
import { findNativeLibrary } from "../../../src/nodes/native-library.ts";
import { type FastPath, typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { type NativePath, openNativePath } from "../../../src/sfu/fast-path/native-path.ts";

/** Made from the C files of this checkout. Without a compiler there is none, and the tests fail with that reason. */
export async function nativeLibraryPath(): Promise<string> {
  const library = await findNativeLibrary("native", { info() {} });
  if (!library) throw new Error("no native library");
  return library.path;
}

/** The fast path with which whole rooms are tested: `MEDIA_FAN_OUT=typescript bin/test sfu` tests the other one. */
export async function libraryUnderTest(): Promise<string | undefined> {
  return process.env.MEDIA_FAN_OUT === "typescript" ? undefined : await nativeLibraryPath();
}

export const nativePath: NativePath = openNativePath(await nativeLibraryPath());

export const PATHS: readonly [string, FastPath][] = [
  ["TypeScript", typescriptPath],
  ["native", nativePath],
];
