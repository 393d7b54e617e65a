import { join } from "node:path";

type Argument = { packages: string; url: string; tokens: Record<string, string> };

/** A script of this folder in Node, and every line that it says. */
export function startNative(script: `${string}.mjs`, argument: Argument) {
  const child = Bun.spawn(["node", join(import.meta.dir, script), JSON.stringify(argument)], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const lines: string[] = [];
  let news = Promise.withResolvers<void>();
  const wake = () => {
    news.resolve();
    news = Promise.withResolvers<void>();
  };
  let isOver = false;
  const reading = (async () => {
    let rest = "";
    for await (const chunk of child.stdout) {
      const parts = `${rest}${Buffer.from(chunk)}`.split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
      wake();
    }
    isOver = true;
    wake();
  })();
  const errors = new Response(child.stderr).text();
  return {
    lines,
    /** `since`: only what was said from that line on counts. */
    async says(line: string, times = 1, since = 0): Promise<void> {
      while (lines.slice(since).filter((one) => one === line).length < times) {
        if (isOver) throw new Error(`it ended before it said "${line}": ${lines.join(" | ")} ${await errors}`);
        await news.promise;
      }
    },
    does: (command: string) => void child.stdin.write(`${command}\n`),
    async end() {
      child.kill("SIGKILL");
      await Promise.all([child.exited, reading]);
    },
  };
}
