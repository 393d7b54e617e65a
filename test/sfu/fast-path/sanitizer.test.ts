// needs: gcc libc6-dev libssl-dev
// suite: all
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NATIVE_SOURCES } from "../../../src/sfu/fast-path/compile.ts";

test("native code has no out-of-bounds access and no leak, with any arguments", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-sanitizer-"));
  try {
    const program = join(folder, "driver");
    const sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
    const compiler = Bun.spawn(
      [
        "cc",
        "-std=gnu11",
        "-g",
        "-O1",
        ...sanitizers,
        `${import.meta.dir}/driver.c`,
        ...NATIVE_SOURCES,
        "-lcrypto",
        "-o",
      ].concat(program),
      { stderr: "pipe" },
    );
    expect(await new Response(compiler.stderr).text()).toBe("");
    expect(await compiler.exited).toBe(0);
    const run = Bun.spawn([program], {
      env: { ASAN_OPTIONS: "detect_leaks=1:abort_on_error=0", UBSAN_OPTIONS: "print_stacktrace=1" },
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, errors] = await Promise.all([new Response(run.stdout).text(), new Response(run.stderr).text()]);
    expect(errors).toBe("");
    expect(out).toBe("sound\n");
    expect(await run.exited).toBe(0);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 120_000);
