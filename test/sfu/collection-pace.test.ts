import { expect, test } from "bun:test";

/** What a process that calls it finds in its own environment, as Bun does when a thread begins. */
async function intervalWith(env: Record<string, string>): Promise<string> {
  const program = `
    import { CString, dlopen } from "bun:ffi";
    import { collectSeldom } from ${JSON.stringify(`${import.meta.dir}/../../src/media/collection-pace.ts`)};
    const told = collectSeldom();
    const { symbols } = dlopen("libc.so.6", { getenv: { args: ["cstring"], returns: "ptr" } });
    const found = symbols.getenv(Buffer.from("BUN_GC_TIMER_INTERVAL\\0"));
    console.log(told, found === null ? "nothing" : new CString(found).toString(), process.env.BUN_GC_TIMER_INTERVAL ?? "not told");
  `;
  const child = Bun.spawn([process.execPath, "-e", program], {
    env: { PATH: process.env.PATH, ...env },
    stdout: "pipe",
    stderr: "inherit",
  });
  return (await new Response(child.stdout).text()).trim();
}

test("threads that begin from now on collect every half minute, and programs that are started know nothing of it", async () => {
  expect(await intervalWith({})).toBe("true 30000 not told");
}, 60_000);

test("what an operator has set stays", async () => {
  expect(await intervalWith({ BUN_GC_TIMER_INTERVAL: "500" })).toBe("true 500 500");
}, 60_000);
