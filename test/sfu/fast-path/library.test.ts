// needs: gcc libc6-dev libssl-dev
import { expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EmbeddedMedia } from "../../../src/nodes/embedded-media.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { findDisagreement } from "../../../src/sfu/fast-path/self-test.ts";
import { nativePath } from "./both-paths.ts";

test.each([
  ["auto", "native"],
  ["native", "native"],
  ["typescript", "typescript"],
] as const)("[11] MEDIA_FAN_OUT=%s: the log tells that packets are sent by %s", async (fanOut, used) => {
  const logged: unknown[] = [];
  const media = await EmbeddedMedia.start({
    workers: 1,
    warmUp: false,
    port: 0,
    hostname: "127.0.0.1",
    announce: ["127.0.0.1"],
    tcp: false,
    fanOut,
    log: { info: (details) => void logged.push((details as { fanOut?: string }).fanOut), error: () => {} },
  });
  await media.close();
  await media.close();
  expect(logged).toEqual([used]);
});

/** In a process of its own, where no compiler is found and nothing was compiled before. */
async function findWithoutCompiler(choice: string): Promise<{ out: string; err: string; code: number }> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-native-"));
  try {
    const script = join(folder, "find.ts");
    const source = (path: string) => JSON.stringify(join(import.meta.dir, "../../../src", path));
    writeFileSync(
      script,
      `import { compileNative } from ${source("sfu/fast-path/compile.ts")};
       const result = await compileNative(${JSON.stringify(join(folder, "media.so"))});
       console.log(JSON.stringify(result));
       import { findNativeLibrary } from ${source("nodes/native-library.ts")};
       const library = await findNativeLibrary("${choice}", { info: (details) => console.log(JSON.stringify(details)) }, "${folder}");
       console.log(library === null ? "typescript" : "native");`,
    );
    const child = Bun.spawn([process.execPath, script], { env: { PATH: folder }, stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect(existsSync(join(folder, "media.so"))).toBe(false);
    return { out, err, code: await child.exited };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("without a compiler TypeScript takes over, and the log says why", async () => {
  const { out, code } = await findWithoutCompiler("auto");
  expect(out.trim().split("\n")).toEqual([
    '{"ok":false,"reason":"there is no C compiler"}',
    '{"reason":"there is no C compiler"}',
    "typescript",
  ]);
  expect(code).toBe(0);
});

test("[11] a server that requires native code but has none fails with the reason", async () => {
  const { err, code } = await findWithoutCompiler("native");
  expect(err).toContain("MEDIA_FAN_OUT=native is unavailable: there is no C compiler.");
  expect(code).toBe(1);
});

test("native code that protects packets otherwise than TypeScript is not used", () => {
  expect(findDisagreement(nativePath)).toBeNull();
  for (const profile of ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"]) {
    const broken: typeof typescriptPath = {
      ...typescriptPath,
      createCipher(master) {
        const cipher = typescriptPath.createCipher(master);
        if (master.profile !== profile) return cipher;
        const encrypt = cipher.encryptRtp.bind(cipher);
        cipher.encryptRtp = (data, headerLength, length, roc, sequenceNumber) =>
          encrypt(data, headerLength, length, roc + 1, sequenceNumber);
        return cipher;
      },
    };
    expect(findDisagreement(broken)).toBe(`${profile} gives other packets than TypeScript`);
  }
});
