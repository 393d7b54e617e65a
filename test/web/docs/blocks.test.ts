import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Block, blocksOf, GUIDES, hasOwnTest, ROOT } from "./blocks.ts";
import { type DevServer, startDev } from "./dev-server.ts";

/** Settings of other programs and output are not run. */
const NO_CODE = ["", "text"];

let dev: DevServer;
beforeAll(async () => {
  dev = await startDev();
}, 60_000);
afterAll(() => dev.stop());

describe.each(GUIDES)("%s", (guide) => {
  const blocks = blocksOf(guide);

  test("every block is tested", () => {
    const tested = ["sh", "js", "json", "toml", ...NO_CODE];
    const untested = blocks
      .filter((block) => !hasOwnTest(block) && !(tested.includes(block.language) && block.info === ""))
      .map(({ line, language }) => `${guide}:${line} ${language}`);
    expect(untested).toEqual([]);
  });

  test("every shell block has valid syntax", async () => {
    for (const { code, line } of blocks.filter(({ language }) => language === "sh")) {
      const result = await run(["bash", "-n"], code.replaceAll(/<[a-z ]+>/g, "name"));
      expect([`${guide}:${line}`, result.err]).toEqual([`${guide}:${line}`, ""]);
    }
  });

  test("the shell blocks run one after the other against a server", async () => {
    const shell = blocks.filter((block) => block.language === "sh" && !hasOwnTest(block));
    if (shell.length === 0) return;
    const config = blocks.find(({ language }) => language === "toml");
    if (config) writeFileSync(join(dev.folder, "stoa.toml"), config.code);
    const script = shell.map(({ code, line }) => `echo "# line ${line}"\n${code}`).join("\n");
    const { code, out, err } = await run(["bash", "-euo", "pipefail"], localized(script));
    expect([code, code === 0 ? "" : `${out}${err}`]).toEqual([0, ""]);
  }, 120_000);

  test("the JavaScript blocks for backends run", async () => {
    for (const block of blocks.filter((one) => one.language === "js" && one.info === "" && !hasOwnTest(one))) {
      const file = join(dev.folder, "block.mjs");
      writeFileSync(file, localized(block.code));
      const { code, err } = await run([process.execPath, file], "");
      expect([where(block), code, code === 0 ? "" : err]).toEqual([where(block), 0, ""]);
    }
  }, 60_000);

  test("JSON and TOML blocks parse", () => {
    for (const { language, code } of blocks) {
      if (language === "json") JSON.parse(code);
      if (language === "toml") Bun.TOML.parse(code);
    }
  });
});

const where = ({ guide, line }: Block) => `${guide}:${line}`;

/** Replaces the example address and secrets with those of the test's server. */
function localized(code: string): string {
  return code.replaceAll("http://127.0.0.1:7000", dev.url).replaceAll(/svk_dev_…|svk_…/g, dev.apiKey);
}

async function run(command: string[], input: string): Promise<{ code: number; out: string; err: string }> {
  const path = `${join(ROOT, "bin")}:${process.env.PATH}`;
  const child = Bun.spawn(command, {
    cwd: dev.folder,
    env: { PATH: path, HOME: dev.folder, STOA: dev.url, STOA_API_KEY: dev.apiKey },
    stdin: new Blob([input]),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out, err };
}
