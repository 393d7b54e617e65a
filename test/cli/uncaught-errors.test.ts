import { expect, test } from "bun:test";
import { join } from "node:path";

const MODULE = join(import.meta.dir, "../../src/cli/uncaught-errors.ts");

/** Runs a program that survives uncaught errors, whose cause is `body`; returns what it has printed. */
async function run(body: string) {
  const program = `
    import { surviveUncaughtErrors } from ${JSON.stringify(MODULE)};
    const log = { error: ({ err }, message) => console.log(message + ": " + err.message) };
    surviveUncaughtErrors(log, (reason, exitCode) => (console.log("end: " + reason), process.exit(exitCode)));
    ${body}`;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "inherit" });
  const out = await new Response(child.stdout).text();
  return { code: await child.exited, lines: out.trim().split("\n") };
}

test("a server continues after an exception in a timer and a rejected promise that nothing handles", async () => {
  const { code, lines } = await run(`
    setTimeout(() => { throw new Error("timer"); });
    void Promise.reject(new Error("promise"));
    setTimeout(() => console.log("still here"), 100);`);
  expect(lines.toSorted()).toEqual(["server: uncaught error: promise", "server: uncaught error: timer", "still here"]);
  expect(code).toBe(0);
});

test("a server whose errors do not stop ends, so that it is started again", async () => {
  const { code, lines } = await run('setInterval(() => { throw new Error("again"); });');
  expect(lines.filter((line) => line === "server: uncaught error: again")).toHaveLength(100);
  expect(lines.at(-1)).toBe("end: uncaught errors");
  expect(code).toBe(1);
});
