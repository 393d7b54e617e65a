/** The two calls that the steps of page-api.ts need, so that they run in either browser. */
export type Scripted = {
  evaluate<Result, Argument>(
    run: (argument: Argument) => Result | Promise<Result>,
    argument: Argument,
  ): Promise<Result>;
  waitForFunction<Argument>(
    holds: (argument: Argument) => unknown,
    argument: Argument,
    options?: { timeout?: number; polling?: number },
  ): Promise<unknown>;
};
