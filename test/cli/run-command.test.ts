import { expect, test } from "bun:test";
import { join } from "node:path";
import { ROOT } from "./stoa.ts";

const FILE = JSON.stringify(join(ROOT, "src/cli/run-command.ts"));

/** Runs a command in a separate process; `announce` is the body of the function that gets the command's process id. */
function running(command: string[], announce: string, env: Record<string, string> = {}) {
  const script = `
    const { runCommand } = await import(${FILE});
    process.exit(await runCommand(${JSON.stringify(command)}, { GIVEN: "given" }, async (pid) => { ${announce} }));`;
  const child = Bun.spawn([process.execPath, "-e", script], {
    env: { PATH: process.env.PATH ?? "", ...env },
    stdin: new Blob(["what is typed"]),
    stdout: "pipe",
    stderr: "pipe",
  });
  // The output ends when neither the process nor its command can write to it any more.
  return Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
}

test("[11] a command never starts if its parent is killed before its process id was announced", async () => {
  const [out] = await running(["echo", "ran"], 'process.kill(process.pid, "SIGKILL");');
  expect(out).toBe("");
});

test("[11] a command starts only after its process id was announced", async () => {
  const [out] = await running(["sh", "-c", "echo $$"], 'await Bun.write(Bun.stdout, "named " + pid + "\\n");');
  const [named = "", pid] = out.trim().split("\n");
  expect(named).toBe(`named ${pid}`);
});

test("[11] a command gets the input and all variables, no further descriptor, and its exit code is passed on", async () => {
  const [typed, , code] = await running(["sh", "-c", "cat; ls /dev/fd/3 2>/dev/null; exit 7"], "");
  expect([typed, code]).toEqual(["what is typed", 7]);
  const [variables] = await running(["env"], "", { "npm_config_//host/:key": "a b" });
  expect(variables.split("\n")).toEqual(expect.arrayContaining(["GIVEN=given", "npm_config_//host/:key=a b"]));
});

test("[11] a missing program is reported, and so is one that cannot be run", async () => {
  const [, missing, notFound] = await running(["no-such-program"], "");
  expect([missing, notFound]).toEqual(["stoa: no-such-program: there is no such program\n", 127]);
  const [, wrong, notRun] = await running([ROOT], "");
  expect([wrong, notRun]).toEqual([expect.stringContaining(ROOT), 126]);
});
