import { expect, test } from "bun:test";
import { stoa } from "./stoa.ts";

async function completeInBash(words: readonly string[]): Promise<string[]> {
  const { out: script } = await stoa(["completion", "bash"]);
  const list = words.map((word) => `'${word}'`).join(" ");
  const probe = `${script}\nCOMP_WORDS=(${list}); COMP_CWORD=${words.length - 1}; _stoa; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const bash = Bun.spawn(["bash", "-c", probe], { stdout: "pipe" });
  return (await new Response(bash.stdout).text()).trim().split("\n");
}

test("[11] bash completes commands, subcommands and flags, each at its own level only", async () => {
  expect(await completeInBash(["stoa", "conf"])).toEqual(["config"]);
  expect(await completeInBash(["stoa", "config", ""])).toEqual(["check", "print", "doc", "--help"]);
  expect(await completeInBash(["stoa", "config", "print", "--chat-max-te"])).toEqual(["--chat-max-text-length"]);
  expect(await completeInBash(["stoa", "version", "--chat"])).toEqual([""]);
});

test("[11] zsh and fish get a script, another shell gets exit 2", async () => {
  expect((await stoa(["completion", "zsh"])).out).toStartWith("#compdef stoa\n");
  expect((await stoa(["completion", "fish"])).out).toContain("__fish_seen_subcommand_from config");
  expect((await stoa(["completion", "tcsh"])).code).toBe(2);
});
