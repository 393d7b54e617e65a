import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import packageJson from "../../package.json" with { type: "json" };

/**
 * The commit from which `bin/build` built the binary; empty when unknown. The constant does not exist in a checkout.
 */
declare const STOA_COMMIT: string | undefined;

declare const STOA_PLATFORM: string | undefined;

/** The platform of the release for which `bin/build` built this, such as `linux-x64-musl`; null in a checkout. */
export const PLATFORM: string | null = typeof STOA_PLATFORM === "undefined" ? null : STOA_PLATFORM;

const SHORT_COMMIT = 7;
const COMMIT = /^[0-9a-f]{40,64}$/;

/** The version of the package without the commit, for names in which `+` is not allowed. */
export const RELEASE: string = packageJson.version;

/**
 * `0.2.0+abc1234`: the release and, as semantic versioning's build metadata, the commit; `0.2.0` if the commit is
 * unknown.
 */
export const VERSION: string = versionWith(
  typeof STOA_COMMIT === "undefined" ? commitOfCheckout(join(import.meta.dir, "../..")) : STOA_COMMIT,
);

export function versionWith(commit: string | null): string {
  return commit ? `${RELEASE}+${commit}` : RELEASE;
}

/**
 * The short hash of the commit that is checked out. Git's own files are read, because a server need not have Git
 * installed.
 */
export function commitOfCheckout(root: string): string | null {
  const folder = gitFolder(join(root, ".git"));
  const head = text(join(folder, "HEAD"));
  if (head === null) return null;
  const ref = /^ref: (.+)$/.exec(head)?.[1];
  const commit = ref === undefined ? head : commitOfRef(folder, ref);
  return commit !== null && COMMIT.test(commit) ? commit.slice(0, SHORT_COMMIT) : null;
}

/** In a linked worktree `.git` is a file that contains the path of the folder. */
function gitFolder(path: string): string {
  const link = /^gitdir: (.+)$/.exec(text(path) ?? "")?.[1];
  return link === undefined ? path : resolve(path, "..", link);
}

/** Branches of a linked worktree are stored in the main one, as one file each or packed into one list. */
function commitOfRef(folder: string, ref: string): string | null {
  const shared = resolve(folder, text(join(folder, "commondir")) ?? ".");
  const packed = () => text(join(shared, "packed-refs"))?.split("\n") ?? [];
  return (
    text(join(shared, ref)) ??
    packed()
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(" ", 1)[0] ??
    null
  );
}

function text(path: string): string | null {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return null;
  }
}
