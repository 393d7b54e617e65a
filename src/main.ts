/**
 * Bun reads its settings from the environment once, when the process starts. By default it collects garbage every second. A media
 * worker makes a little garbage with every packet, so in a small room these collections take a seventh of the CPU time. The process
 * therefore replaces itself before it loads anything else. It keeps its id, arguments, descriptors and signals.
 */
if (process.env.BUN_GC_TIMER_INTERVAL === undefined && process.execve) {
  const args = Bun.isStandaloneExecutable ? process.argv.slice(2) : [...process.execArgv, ...process.argv.slice(1)];
  try {
    process.execve(process.execPath, [process.argv0, ...args], { ...process.env, BUN_GC_TIMER_INTERVAL: "30000" });
  } catch {
    // Where the system does not allow this, the server only takes a little more CPU time.
  }
}

await import("./kernel/production.ts");
const { run } = await import("./cli/run.ts");
await run(process.argv.slice(2));

export {};
