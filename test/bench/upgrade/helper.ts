/** Processes of the bench's own, whose functions the bench calls: what one of them is busy with does not delay the others. */

// biome-ignore lint/suspicious/noExplicitAny: each helper has functions of its own
type Functions = Record<string, (...args: any[]) => unknown>;
type Call = { id: number; name: string; args: unknown[] };
type Answer = { id: number; value?: unknown; error?: string };

export type Helper<F extends Functions> = {
  readonly pid: number;
  readonly call: { [Name in keyof F]: (...args: Parameters<F[Name]>) => Promise<Awaited<ReturnType<F[Name]>>> };
  end(): void;
};

export function startHelper<F extends Functions>(file: string): Helper<F> {
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  const child = Bun.spawn([process.execPath, file], {
    serialization: "advanced",
    stdio: ["ignore", "inherit", "inherit"],
    ipc({ id, value, error }: Answer) {
      const { resolve, reject } = waiting.get(id) ?? Promise.withResolvers<unknown>();
      waiting.delete(id);
      if (error === undefined) resolve(value);
      else reject(new Error(error));
    },
    onExit(_, code) {
      for (const { reject } of waiting.values()) reject(new Error(`${file} ended with ${code}`));
    },
  });
  let calls = 0;
  const call = new Proxy({} as Helper<F>["call"], {
    get: (_, name: string) =>
      function called(...args: unknown[]) {
        const id = ++calls;
        const answered = Promise.withResolvers<unknown>();
        waiting.set(id, answered);
        child.send({ id, name, args } satisfies Call);
        return answered.promise;
      },
  });
  return { pid: child.pid, call, end: () => child.kill() };
}

/** Answers the calls of the bench, in the process of the helper. */
export function serveHelper(functions: Functions): void {
  process.on("message", async ({ id, name, args }: Call) => {
    const answer: Answer = await Promise.try(() => functions[name]?.(...args)).then(
      (value) => ({ id, value }),
      (error: Error) => ({ id, error: `${name}: ${error.stack ?? error.message}` }),
    );
    process.send?.(answer);
  });
}
