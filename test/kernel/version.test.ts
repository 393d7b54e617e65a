import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { commitOfCheckout, RELEASE, VERSION, versionWith } from "../../src/kernel/version.ts";

const ROOT = join(import.meta.dir, "../..");
const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const OTHER = "fedcba9876543210fedcba9876543210fedcba98";

const work = mkdtempSync(join(tmpdir(), "stoa-version-"));
afterAll(() => rmSync(work, { recursive: true }));

function checkout(name: string, files: Record<string, string>): string {
  const root = join(work, name);
  mkdirSync(root);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), content);
  }
  return root;
}

test("[contract 24] the version is the release and, as build metadata, the commit", () => {
  expect(RELEASE).toBe(packageJson.version);
  expect(versionWith("0123456")).toBe(`${RELEASE}+0123456`);
  expect(VERSION).toBe(versionWith(commitOfCheckout(ROOT)));
});

test("without a commit the version is the release alone", () => {
  expect(versionWith(null)).toBe(RELEASE);
  // The version of a binary that was built outside of Git.
  expect(versionWith("")).toBe(RELEASE);
});

describe("the commit of a checkout", () => {
  test("is that of the branch", () => {
    const root = checkout("branch", { ".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": `${COMMIT}\n` });
    expect(commitOfCheckout(root)).toBe("0123456");
  });

  test("is that of the branch in the packed list", () => {
    const packed = `# pack-refs with: peeled fully-peeled sorted\n${OTHER} refs/heads/a/main\n${COMMIT} refs/heads/main\n`;
    const root = checkout("packed", { ".git/HEAD": "ref: refs/heads/main\n", ".git/packed-refs": packed });
    expect(commitOfCheckout(root)).toBe("0123456");
  });

  test("is the one that is checked out without a branch", () => {
    expect(commitOfCheckout(checkout("detached", { ".git/HEAD": `${COMMIT}\n` }))).toBe("0123456");
  });

  test("is found from a linked worktree", () => {
    const root = checkout("worktree", {
      "main/.git/HEAD": "ref: refs/heads/main\n",
      "main/.git/refs/heads/main": `${OTHER}\n`,
      "main/.git/refs/heads/topic": `${COMMIT}\n`,
      "main/.git/worktrees/topic/HEAD": "ref: refs/heads/topic\n",
      "main/.git/worktrees/topic/commondir": "../..\n",
      "topic/.git": "gitdir: ../main/.git/worktrees/topic\n",
    });
    expect(commitOfCheckout(join(root, "topic"))).toBe("0123456");
  });

  test.each([
    ["there is no .git", {}],
    ["the branch has no commit yet", { ".git/HEAD": "ref: refs/heads/main\n" }],
    ["HEAD is damaged", { ".git/HEAD": "hello\n" }],
  ] as const)("is unknown where %s", (name, files) => {
    expect(commitOfCheckout(checkout(name, files))).toBeNull();
  });

  test.skipIf(Bun.which("git") === null || commitOfCheckout(ROOT) === null)("is what Git says", () => {
    const { stdout } = Bun.spawnSync(["git", "rev-parse", "HEAD"], { cwd: ROOT });
    expect(commitOfCheckout(ROOT)).toBe(stdout.toString().slice(0, 7));
  });
});
